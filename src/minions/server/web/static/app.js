// What every page runs: times, keys, copying, charts and live updates.
import "./times.js";
import "./keys.js";
import "./charts.js";
import "./live.js";

document.documentElement.classList.add("scripted");

const pressed = new WeakMap(); // by button that was pressed a moment ago: its own words, and the timer that puts them back

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const words = pressed.get(button)?.words ?? button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press ⌘C";
    const code = button.parentElement.querySelector("code");
    if (code) getSelection().selectAllChildren(code);
  }
  clearTimeout(pressed.get(button)?.timer);
  const timer = setTimeout(() => { button.textContent = words; pressed.delete(button); }, 1600);
  pressed.set(button, { words, timer });
});

// A form that asks first does so here, and is sent as it is without a script.
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// A select that filters a list needs no button where scripts run.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-send-on-change]")) event.target.form.requestSubmit();
});

// What was left empty has no place in the address of a list.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

for (const toast of document.querySelectorAll(".toast")) {
  setTimeout(() => toast.classList.add("leaving"), 6000);
  setTimeout(() => toast.remove(), 6600);
}
