// The list of tasks: how many the buttons below it are about, and going on with what one request could not finish.
function tell() {
  const form = document.getElementById("many");
  const place = form?.querySelector("[data-many-words]");
  if (!place) return;
  const chosen = form.querySelectorAll("input[name=task]:checked").length;
  const said = chosen ? `${chosen} chosen:` : place.dataset.manyWords;
  if (place.textContent !== said) place.textContent = said;
}

document.addEventListener("change", (event) => { if (event.target.matches("#many input[name=task]")) tell(); });
document.addEventListener("minions:refreshed", tell);
document.addEventListener("keydown", (event) => {
  if (event.key !== "x" || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const box = document.querySelector('#many tr[aria-selected="true"] input[name=task]');
  if (box) { box.checked = !box.checked; tell(); }
});
tell();

document.querySelector("form[data-go-on]")?.requestSubmit();
