// Charts are drawn from the tables beside them: figure[data-chart] > .plot + table tr[data-x][data-y].
const drawn = new WeakMap();

function token(name) {
  // A colour that light-dark() has resolved: canvas does not know custom properties.
  const probe = document.createElement("span");
  probe.className = "hidden";
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function faint(colour, part) {
  return `color-mix(in srgb, ${colour} ${part}%, transparent)`;
}

function data(figure) {
  const xs = [], ys = [];
  for (const row of figure.querySelectorAll("tr[data-x]")) {
    xs.push(Number(row.dataset.x));
    ys.push(row.dataset.y === "" ? null : Number(row.dataset.y));
  }
  return [xs, ys];
}

function options(figure, width) {
  const [line, ink, grid] = [token("accent"), token("muted"), token("line")];
  const zone = document.body.dataset.zone;
  const unit = figure.dataset.unit;
  const font = "12px ui-sans-serif, system-ui, sans-serif";
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: zone });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  // Ticks are a minute apart at least: labels tell no seconds, and closer ones would repeat themselves.
  const apart = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map((minutes) => minutes * 60);
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: Number(figure.dataset.height) || 180,
    padding: [10, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7, fill: line } },
    legend: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.12 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, incrs: apart, values: (_, all) => all.map((x) => {
        const said = clock.format(x * 1000);
        return said === "00:00" ? day.format(x * 1000) : said;
      }) },
      { ...axis, size: 46, space: 34, values: (_, all) => all.map((y) => short.format(y)) },
    ],
    series: [{}, { stroke: line, width: 1.6, fill: faint(line, 12), points: { show: false }, spanGaps: false }],
    hooks: { setCursor: [(plot) => {
      const at = plot.cursor.idx;
      const readout = figure.querySelector(".readout");
      if (!readout) return;
      const value = at == null ? null : plot.data[1][at];
      readout.textContent = value == null ? "" :
        `${clock.format(plot.data[0][at] * 1000)} · ${new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format(value)} ${unit}`;
    }] },
  };
}

export function draw(figure) {
  const place = figure.querySelector(".plot");
  const width = place?.clientWidth;
  if (!width || !window.uPlot) return;
  const before = drawn.get(figure);
  const points = data(figure);
  if (before?.place === place && before.width === width && before.look === look()) {
    before.plot.setData(points);
    return;
  }
  before?.plot.destroy();
  place.replaceChildren();
  const plot = new uPlot(options(figure, width), points, place);
  const readout = document.createElement("p");
  readout.className = "readout";
  place.append(readout);
  drawn.set(figure, { plot, place, width, look: look() });
}

function look() {
  return getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color;
}

export function drawAll(root = document) {
  for (const figure of root.querySelectorAll("figure[data-chart]")) draw(figure);
}

const onResize = new ResizeObserver(() => drawAll());
if (document.readyState === "complete") start(); else addEventListener("load", start);
function start() {
  drawAll();
  onResize.observe(document.getElementById("main") ?? document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
}
document.addEventListener("minions:refreshed", (event) => drawAll(event.target.parentElement ?? document));
