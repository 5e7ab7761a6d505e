// Live updates. The server says on one stream *what* changed; elements that show it fetch themselves again.
//
//   <section id="fleet" data-live="executors" data-src="/fragments/overview/fleet" data-every="3">…</section>
//
// data-live: the topics that concern it, in words. data-src: answers with the element itself, same id. data-every: at
// most once in so many seconds (2 without it). data-at-least: at least once in so many while the page is seen and live
// (60 without it), because rates of the last minute and what only time changes are told by nobody. data-reload: the page
// is loaded again once the answer has no such element. After each refresh it gets the event `minions:refreshed`.
const QUIET_SECONDS = 9; // the server says "alive" every 4
const STALE_SECONDS = 30;
const DEFAULT_EVERY_SECONDS = 2;
const DEFAULT_AT_LEAST_SECONDS = 60;
const STAGGER = 0.2; // so much sooner at most, by chance, so that many pages do not ask at once
const SETTLING = 2.2; // throttles: what the server answers is as old as two of them at most
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 15;
const LONGEST_FETCH_SECONDS = 30;
const TYPED_INTO = "textarea, select, input:not([type=checkbox], [type=radio], [type=button], [type=submit])";

const chip = document.getElementById("live");
let stream = null;
let subscribed = "";
let heardAt = 0;
const arrivedAt = Date.now();
let freshAt = arrivedAt;
let pauseSeconds = FIRST_PAUSE_SECONDS;
let retry = 0;
let hadGap = false;

const all = () => [...document.querySelectorAll("[data-live][data-src]")];
const topicsOf = (element) => element.dataset.live.split(/\s+/).filter(Boolean);

function say(state, word) {
  if (!chip) return;
  chip.dataset.state = state;
  put(chip.querySelector(".word"), word); // spoken by screen readers, and so never written anew without need
  document.documentElement.dataset.liveState = state;
}

function put(place, words) { if (place.textContent !== words) place.textContent = words; }

function connect() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
  const topics = [...new Set(all().flatMap(topicsOf))].sort();
  subscribed = topics.join(" ");
  if (!topics.length || document.hidden) { say("off", ""); return; }
  heardAt = Date.now();
  const query = new URLSearchParams(topics.map((topic) => ["topic", topic]));
  const mine = new EventSource(`/events?${query}`);
  stream = mine;
  mine.addEventListener("hello", () => {
    heard();
    pauseSeconds = FIRST_PAUSE_SECONDS;
    say("live", "Live");
    if (hadGap) { hadGap = false; refreshAll(); return; }
    fresh();
    // What changed after the page was made and before this stream began was told to nobody here.
    for (const element of all()) want(element, false);
  });
  mine.addEventListener("alive", () => { heard(); fresh(); });
  mine.addEventListener("changed", (event) => {
    heard();
    const changed = new Set(event.data.split(" "));
    for (const element of all()) if (topicsOf(element).some((topic) => changed.has(topic))) want(element);
  });
  mine.addEventListener("everything", () => { heard(); say("live", "Live"); refreshAll(); });
  mine.addEventListener("waiting", () => { heardAt = Date.now(); hadGap = true; say("reconnecting", "Reconnecting"); });
  mine.onerror = () => { lost(); askWhy(); };
}

function heard() { heardAt = Date.now(); }

function fresh() {
  freshAt = Date.now();
  showAge();
}

function lost() {
  stream?.close();
  stream = null;
  hadGap = true;
  say("reconnecting", "Reconnecting");
  clearTimeout(retry);
  retry = setTimeout(connect, pauseSeconds * 1000 * (0.7 + 0.6 * Math.random()));
  pauseSeconds = Math.min(pauseSeconds * 1.7, LONGEST_PAUSE_SECONDS);
}

// A stream that is refused does not say why: whoever is not signed in any more is shown the way in.
async function askWhy() {
  const source = all()[0]?.dataset.src;
  if (!source) return;
  try {
    const answer = await fetch(source, { headers: { "HX-Request": "true" }, cache: "no-store" });
    if (answer.status === 401) loadAgain();
  } catch { /* nobody answers: it is tried again */ }
}

let loadsAgain = false; // once: another would break off the first

function loadAgain() {
  if (!loadsAgain) location.reload();
  loadsAgain = true;
}

function refreshAll() { for (const element of all()) want(element, true); }

const states = new WeakMap(); // by element: when it was last fetched, and what is planned

function stateOf(element) {
  if (!states.has(element)) {
    const nothing = { timer: 0, busy: false, again: false, settles: false, settling: false, putOff: false };
    states.set(element, { at: arrivedAt, chance: Math.random(), ...nothing });
  }
  return states.get(element);
}

function want(element, now = false, settles = true) {
  const state = stateOf(element);
  state.settles ||= settles;
  if (state.busy) { state.again = true; return; }
  if (state.timer && !(settles && state.settling)) return;
  clearTimeout(state.timer);
  state.settling = !settles;
  const every = (Number(element.dataset.every) || DEFAULT_EVERY_SECONDS) * 1000;
  const due = state.at + (settles ? every : SETTLING * every);
  const wait = now ? Math.random() * 300 : Math.max(0, due - Date.now());
  state.timer = setTimeout(() => { state.timer = 0; refresh(element, state); }, wait);
}

function wantTheOld() {
  if (!stream || document.hidden || document.documentElement.dataset.liveState !== "live") return;
  for (const element of all()) {
    const state = stateOf(element);
    const seconds = (Number(element.dataset.atLeast) || DEFAULT_AT_LEAST_SECONDS) * (1 - STAGGER * state.chance);
    const isOld = Date.now() - state.at > seconds * 1000;
    if (isOld && !state.timer && !state.busy && !state.putOff) want(element, false, false);
  }
}

// A form that somebody is filling in is left alone until they are done.
function isTypedInto(element) {
  return element.contains(document.activeElement) && document.activeElement.matches(TYPED_INTO);
}

function fetchWhatWasPutOff() {
  for (const element of all()) {
    const state = stateOf(element);
    if (!state.putOff || isTypedInto(element)) continue;
    state.putOff = false;
    want(element, true);
  }
}

async function refresh(element, state) {
  if (isTypedInto(element)) { state.putOff = true; return; }
  // What the server answers may be as old as two of the element's throttles, because many pages share it and what it is
  // made of: after what changed was fetched, it is fetched once more, so that the last change of all is never missed.
  const settles = state.settles;
  state.settles = false;
  if (!element.dataset.src) return; // it has changed meanwhile, and has nothing to fetch any more
  if (!element.isConnected || document.hidden) { hadGap ||= document.hidden; return; }
  state.busy = true;
  state.at = Date.now();
  try {
    const signal = AbortSignal.timeout(LONGEST_FETCH_SECONDS * 1000); // a connection may hang without an end
    const answer = await fetch(element.dataset.src, { headers: { "HX-Request": "true" }, cache: "no-store", signal });
    if (answer.status === 401) { loadAgain(); return; }
    if (answer.status === 404) { state.again = false; element.removeAttribute("data-live"); return; }
    if (!answer.ok) throw new Error(`${answer.status}`);
    const text = await answer.text();
    if (!element.isConnected) return;
    if ("reload" in element.dataset) { reloadUnlessSame(element, text); return; }
    if (isTypedInto(element)) { state.putOff = true; return; }
    await htmx.swap({ sourceElement: element, target: element, text, swap: "outerMorph" });
    fresh();
    document.getElementById(element.id)?.dispatchEvent(new CustomEvent("minions:refreshed", { bubbles: true }));
    if ([...new Set(all().flatMap(topicsOf))].sort().join(" ") !== subscribed) connect();
  } catch {
    state.again = false;
    if (stream) want(element); // the stream holds: this one answer failed
  } finally {
    state.busy = false;
    if (state.again) { state.again = false; want(element); }
    else if (settles && element.isConnected && !document.hidden) want(element, false, false);
  }
}

function reloadUnlessSame(element, text) {
  const answered = new DOMParser().parseFromString(text, "text/html").getElementById(element.id);
  if (answered && "reload" in answered.dataset) fresh();
  else loadAgain(); // more than this element will be different
}

function showAge() {
  const seconds = Math.round((Date.now() - freshAt) / 1000);
  const stale = seconds >= STALE_SECONDS && document.documentElement.dataset.liveState === "reconnecting";
  for (const element of all()) element.classList.toggle("is-stale", stale);
  const age = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  if (chip) put(chip.querySelector(".age"), stale ? `last update ${age} ago` : "");
}

setInterval(() => {
  if (stream && Date.now() - heardAt > QUIET_SECONDS * 1000) lost();
  showAge();
  wantTheOld();
}, 1000);
// After the event, when the field that got the focus is known.
document.addEventListener("focusout", () => setTimeout(fetchWhatWasPutOff));
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; clearTimeout(retry); hadGap = true; } else connect();
});
addEventListener("pagehide", () => stream?.close());
addEventListener("pageshow", (event) => { if (event.persisted) { hadGap = true; connect(); } });
document.addEventListener("htmx:after:swap", () => {
  if ([...new Set(all().flatMap(topicsOf))].sort().join(" ") !== subscribed) connect();
});
function start() {
  connect();
  // What was too costly to come with the page is fetched once it stands.
  for (const element of document.querySelectorAll("[data-load][data-src]")) want(element, true);
}
if (document.readyState === "complete") start(); else addEventListener("load", start);
