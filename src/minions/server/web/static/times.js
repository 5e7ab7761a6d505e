// Relative times stay true while the page stands; texts.py says them the same way.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

function span(seconds) {
  const unit = UNITS.find(([length]) => seconds >= length);
  return unit ? `${Math.floor(seconds / unit[0])} ${unit[1]}` : `${Math.floor(seconds)} s`;
}

export function ago(moment, now = Date.now()) {
  const seconds = (now - moment) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

function refresh() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-relative], time[data-lasting]")) {
    const moment = Date.parse(element.dateTime);
    const said = "lasting" in element.dataset ? `for ${span(Math.max(0, (Date.now() - moment) / 1000))}` : ago(moment);
    if (element.textContent !== said) element.textContent = said;
  }
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`minions-browser-zone=${zone}`)) {
  document.cookie = `minions-browser-zone=${zone}; path=/; max-age=31536000; samesite=lax`;
}

setInterval(refresh, 5000);
document.addEventListener("visibilitychange", refresh);
