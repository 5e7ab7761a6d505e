// Keys: g and a letter go somewhere, / searches, j and k walk the rows of the page's list, ? lists them.
const GO_MILLISECONDS = 1200;
let going = 0;

function rows() {
  return [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a[href]") && row.offsetParent);
}

function walk(step) {
  const all = rows();
  if (!all.length) return;
  const here = all.findIndex((row) => row.getAttribute("aria-selected") === "true");
  const next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
  for (const row of all) row.removeAttribute("aria-selected");
  next.setAttribute("aria-selected", "true");
  next.querySelector("a[href]").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, select, textarea, [contenteditable], dialog")) return;
  const key = event.key;
  if (going && Date.now() - going < GO_MILLISECONDS) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    if (link) { event.preventDefault(); link.click(); return; }
  }
  if (key === "g") { going = Date.now(); return; }
  if (key === "j" || key === "k") { event.preventDefault(); walk(key === "j" ? 1 : -1); return; }
  if (key === "?") { event.preventDefault(); document.getElementById("keys")?.showModal(); return; }
  if (key === "/") {
    event.preventDefault();
    const search = document.querySelector("main input[type=search]");
    if (search) { search.focus(); search.select(); } else location.href = "/tasks?focus=search";
  }
});

if (new URLSearchParams(location.search).get("focus") === "search") {
  document.querySelector("main input[type=search]")?.focus();
}
