// The page of a task: what is under the pointer among the dots, and menus that close.
const WORDS = { q: "queued", d: "done", p: "partly done", r: "running", g: "given back", s: "set aside", c: "cancelled" };

function dotAt(svg, event) {
  const box = svg.getBoundingClientRect();
  const columns = Number(svg.dataset.columns);
  const view = svg.viewBox.baseVal;
  const scale = Math.min(box.width / view.width, box.height / view.height);
  const left = box.left + (box.width - view.width * scale) / 2;
  const top = box.top + (box.height - view.height * scale) / 2;
  const column = Math.floor((event.clientX - left) / scale / 10);
  const row = Math.floor((event.clientY - top) / scale / 10);
  const number = row * columns + column;
  return column >= 0 && column < columns && row >= 0 && number < svg.dataset.dots.length ? number : null;
}

// On a narrow screen the tabs scroll sideways: the one that is open must be seen.
const tab = document.querySelector(".tabs [aria-current]");
if (tab) {
  const tabs = tab.parentElement.getBoundingClientRect(), own = tab.getBoundingClientRect();
  tab.parentElement.scrollLeft += own.left + own.width / 2 - tabs.left - tabs.width / 2;
}

function firstOf(svg, number) { return number * Number(svg.dataset.each); }

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.("svg[data-dots]");
  const place = document.querySelector("[data-dot-words]");
  if (!place) return;
  if (!svg) { if (place.textContent) place.textContent = ""; return; }
  const number = dotAt(svg, event);
  if (number === null) { place.textContent = ""; return; }
  const first = firstOf(svg, number), each = Number(svg.dataset.each);
  const last = Math.min(first + each, Number(svg.dataset.subtasks)) - 1;
  const which = each > 1 ? `Subtasks ${first.toLocaleString("en")} to ${last.toLocaleString("en")}` : `Subtask ${first}`;
  place.hidden = false;
  place.textContent = `${which}: ${WORDS[svg.dataset.dots[number]]}`;
});

document.addEventListener("click", (event) => {
  const svg = event.target.closest?.("svg[data-dots]");
  if (svg) {
    const number = dotAt(svg, event);
    if (number !== null) {
      event.preventDefault();
      const first = firstOf(svg, number);
      location.href = svg.closest("a").href + (first ? `?after=${first - 1}` : "");
    }
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || event.target.closest(".sheet a")) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
