// The form of a new task: a file goes up while one types, and the preview follows what is typed.
const form = document.getElementById("new-task");
const drop = form.querySelector("[data-drop]");
const file = form.querySelector("#f-file");
const words = form.querySelector("[data-drop-words]");
const bar = form.querySelector(".drop-progress");
const SUGGESTED = ["column", "id", "prompt"];
const touched = new Set(); // goes with the form, to come back with it
noteTouched();
let uploading = null;
let asked = 0;
let timer = 0;

function noteTouched() {
  for (const name of form.elements.touched.value.split(" ").filter(Boolean)) touched.add(name);
  for (const name of SUGGESTED) {
    const { value } = form.elements[name];
    if (value && value !== suggestionOf(name)) touched.add(name);
  }
}

function say(text, strong = "") {
  words.textContent = "";
  delete drop.dataset.uploaded;
  words.classList.remove("failed");
  file.removeAttribute("aria-invalid");
  if (strong) {
    const name = document.createElement("b");
    name.textContent = strong;
    words.append(name, " ");
  }
  words.append(text);
}

function sayUploaded() {
  say("is uploaded. Choose another to replace it.", form.elements.filename.value);
  drop.dataset.uploaded = ""; // its field holds no file any more, and does not say so beside this
}

function refuse(text, strong = "") {
  say(text, strong);
  words.classList.add("failed");
  file.setAttribute("aria-invalid", "true");
  file.value = ""; // what was refused is not sent again with the form
}

function send(chosen) {
  uploading?.abort();
  uploading = null;
  bar.hidden = true;
  form.elements.upload.value = "";
  form.elements.filename.value = "";
  look(); // the preview is never that of another file
  if (!chosen) { say("Drop a file here, or choose one."); return; }
  const request = new XMLHttpRequest();
  uploading = request;
  bar.hidden = false;
  bar.value = 0;
  say("goes up …", chosen.name);
  request.open("POST", `/tasks/uploads?filename=${encodeURIComponent(chosen.name)}`);
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.upload.onprogress = (event) => { if (event.lengthComputable) bar.value = event.loaded / event.total; };
  request.onload = () => {
    bar.hidden = true;
    uploading = null;
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* not ours: told below */ }
    if (request.status !== 201) {
      refuse(answer.message ?? `could not be uploaded (${request.status}); choose it again`, answer.message ? "" : chosen.name);
      return;
    }
    form.elements.upload.value = answer.upload;
    form.elements.filename.value = answer.filename;
    file.value = ""; // it is there: the form must not send it a second time
    sayUploaded();
    for (const name of SUGGESTED) if (!touched.has(name)) form.elements[name].value = "";
    look();
  };
  request.onerror = () => {
    bar.hidden = true;
    uploading = null;
    refuse("could not be uploaded: the server did not answer. Choose it again.", chosen.name);
  };
  request.send(chosen);
}

file.addEventListener("change", () => send(file.files[0]));
for (const name of ["dragenter", "dragover"]) {
  drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
});

async function look() {
  clearTimeout(timer);
  const mine = ++asked;
  const data = new FormData(form);
  data.delete("file");
  for (const name of SUGGESTED) if (!touched.has(name)) data.delete(name); // the server suggests them
  const place = document.getElementById("preview");
  place.classList.add("waiting");
  try {
    const answer = await fetch("/tasks/new/preview", { method: "POST", body: data, headers: { "HX-Request": "true" } });
    const text = await answer.text();
    if (mine !== asked) return;
    if (!answer.ok) {
      place.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      return;
    }
    await htmx.swap({ sourceElement: place, target: place, text, swap: "outerMorph" });
    take(document.getElementById("preview"));
  } finally {
    document.getElementById("preview").classList.remove("waiting");
  }
}

// What the preview suggests goes into fields that nobody has typed into.
function take(preview) {
  const list = document.getElementById("columns");
  const columns = JSON.parse(preview.dataset.columns ?? "[]");
  list.replaceChildren(...columns.map((name) => Object.assign(document.createElement("option"), { value: name })));
  for (const name of SUGGESTED) {
    const field = form.elements[name];
    if (!touched.has(name) && document.activeElement !== field) field.value = suggestionOf(name);
  }
}

function suggestionOf(name) {
  const { text = "", id = "" } = document.getElementById("preview").dataset;
  return { column: text, id, prompt: text ? `{${text}}` : "" }[name];
}

// What was wrong and is being corrected is not called wrong any more: the server says again what is.
function correct(field) {
  const place = field.closest(".field.wrong");
  if (!place) return;
  place.classList.remove("wrong");
  place.querySelector(".error")?.remove();
  field.removeAttribute("aria-invalid");
  field.setAttribute("aria-describedby", (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => document.getElementById(id)).join(" "));
  document.querySelector(`#errors a[href="#${field.id}"]`)?.closest("li").classList.add("corrected");
}

form.addEventListener("input", (event) => {
  correct(event.target);
  if (event.target === file) return;
  if (SUGGESTED.includes(event.target.name)) {
    touched.add(event.target.name); // emptied as well: who wants no id is not given one again
    form.elements.touched.value = [...touched].join(" ");
  }
  if (["lines", "uri", "source"].includes(event.target.name)) {
    for (const name of SUGGESTED) if (!touched.has(name)) form.elements[name].value = "";
  }
  clearTimeout(timer);
  timer = setTimeout(look, 450);
});

form.addEventListener("submit", (event) => {
  // A browser that cut a long paste by itself would lose rows and say nothing.
  const lines = form.elements.lines;
  const tooLong = form.elements.source.value === "lines" && lines.value.length > Number(lines.dataset.most);
  lines.setCustomValidity(tooLong ? "Too many characters: save them as a file and choose it." : "");
  if (!lines.reportValidity()) event.preventDefault();
  if (uploading) {
    event.preventDefault();
    say("is still going up; start the task when it is there.");
  }
});

document.getElementById("errors")?.focus();
for (const section of form.querySelectorAll("details:has(.wrong)")) section.open = true;
if ("columns" in document.getElementById("preview").dataset) take(document.getElementById("preview"));
// Back here, the browser has filled in what was typed by then, and knows nothing of the preview.
addEventListener("pageshow", () => {
  noteTouched();
  if (form.elements.upload.value) sayUploaded();
  if ("columns" in document.getElementById("preview").dataset) return;
  if (form.elements.upload.value || form.elements.lines.value || form.elements.uri.value) look();
});
