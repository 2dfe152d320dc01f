// Reads values off charts: those under the pointer, or by the arrow keys of a chart that has the
// focus. They are those of the table behind the chart, and are written below it.
const readings = new Map(); // the row that is read, by the title of its chart; a live view keeps it

// prepare makes the charts of a part of the page readable.
export function prepare(part) {
  for (const drawing of part.querySelectorAll("figure > div")) {
    const svg = drawing.querySelector("svg[data-axis]");
    const chart = svg && chartOf(drawing, svg);
    if (!chart?.note || chart.rows.length === 0) continue;
    drawing.tabIndex = 0;
    for (const [name, value] of Object.entries({ role: "slider", "aria-label": `Values of: ${chart.title}`, "aria-valuemin": 0, "aria-valuemax": chart.rows.length - 1 })) {
      drawing.setAttribute(name, value);
    }
    drawing.addEventListener("pointermove", (e) => read(chart, nearest(chart, e)));
    drawing.addEventListener("keydown", (e) => step(chart, e));
    if (/^(time|spans)$/.test(chart.axis) && drawing.closest("[data-zoom]")) zoomable(chart);
    const last = chart.rows.length - 1;
    read(chart, Math.min(readings.get(chart.title) ?? last, last), readings.has(chart.title));
  }
}

// chartOf is a chart as it was drawn: its table, and where on it the rows are.
function chartOf(drawing, svg) {
  const figure = drawing.parentElement;
  const heads = [...figure.querySelectorAll("th")].map((h) => h.textContent);
  const rows = [...figure.querySelectorAll("tbody tr")].map((r) => [...r.cells].map((c) => c.textContent));
  const [left, right, top, bottom] = svg.dataset.area.split(" ").map(Number);
  const axis = svg.dataset.axis;
  const scale = axis === "log" ? Math.log : (v) => v;
  const from = scale(Number(svg.dataset.from)), to = scale(Number(svg.dataset.to));
  const time = (text) => Date.parse(text.replace(" ", "T") + "Z") / 1000;
  const value = (r, i) => axis === "group" ? i : axis === "time" ? time(r[0]) : axis === "spans" ? Math.max(time(r[1]), from) : Number(r[0]);
  const at = (v) => left + (right - left) * (scale(v) - from) / (to - from);
  const places = rows.map((r, i) => at(value(r, i)));
  const lanes = [...new Set(rows.map((r) => r[0]))]; // of spans: the table has their rows in the order of the drawing
  const spans = axis === "spans" ? rows.map((r) => ({ lane: lanes.indexOf(r[0]), end: at(Math.min(time(r[1]) + Number(r[2]), to)) })) : null;
  return { drawing, svg, axis, heads, rows, places, spans, height: (bottom - top) / lanes.length, top, bottom, left, right, from, to, title: figure.querySelector("figcaption").textContent, unit: figure.dataset.unit ?? "", note: figure.querySelector(".reading") };
}

// place is where the pointer is on the drawing.
function place(chart, e) {
  const box = chart.svg.getBoundingClientRect();
  return (e.clientX - box.left) / box.width * chart.svg.viewBox.baseVal.width;
}

// nearest is the row whose place is nearest to the pointer; of spans one of the task that is pointed at.
function nearest(chart, e) {
  const x = place(chart, e), box = chart.svg.getBoundingClientRect();
  const lane = ((e.clientY - box.top) / box.height * chart.svg.viewBox.baseVal.height - chart.top) / chart.height - 0.5;
  const far = (p, i) => chart.spans ? Math.max(p - x, x - chart.spans[i].end, 0) + 1e4 * Math.abs(chart.spans[i].lane - lane) : Math.abs(p - x);
  const all = chart.places.map(far);
  return all.indexOf(Math.min(...all));
}

function step(chart, e) {
  const last = chart.rows.length - 1, now = Number(chart.drawing.getAttribute("aria-valuenow"));
  const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - 10, PageUp: now + 10, Home: 0, End: last }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  read(chart, Math.min(Math.max(to, 0), last));
}

// words are a row as text: each value with its unit. A series that was drawn at places of its own is
// read at the one nearest to that of the row.
function words(chart, row) {
  if (chart.spans) return `${row[0]} · from ${row[1]} · for ${row[2]} s · ${row[3]}`;
  const all = [];
  let at = row;
  chart.heads.forEach((head, i) => {
    if (head === chart.heads[0]) {
      at = i === 0 ? row : closest(chart.rows.filter((r) => r[i]), i, row[0]);
      if (i === 0 || at && at[i] !== row[0]) all.push(`${head} ${at[i]}`);
      return;
    }
    if (!at?.[i]) return;
    const name = head.endsWith(", " + chart.unit) ? head.slice(0, -chart.unit.length - 2) : head;
    all.push(name === chart.unit ? `${at[i]} ${chart.unit}` : `${name}: ${at[i]} ${chart.unit}`);
  });
  return all.join(" · ");
}

// closest is the row whose column i is closest to x; undefined if there are none.
function closest(rows, i, x) {
  const far = (r) => Math.abs(Number(r[i]) - Number(x));
  return rows.reduce((best, r) => best === undefined || far(r) < far(best) ? r : best, undefined);
}

// read reads one row: as a line on the drawing and as text below it.
function read(chart, i, marked = true) {
  const text = words(chart, chart.rows[i]);
  chart.drawing.setAttribute("aria-valuenow", i);
  chart.drawing.setAttribute("aria-valuetext", text);
  if (!marked) {
    chart.note.textContent = "Point at the chart to read its values, or use the arrow keys.";
    return;
  }
  readings.set(chart.title, i);
  chart.note.textContent = text;
  const cursor = chart.svg.querySelector(".cursor") ?? chart.svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  const x = chart.places[i], span = chart.spans?.[i];
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("d", span ? `M${x} ${chart.top + span.lane * chart.height}v${chart.height}H${span.end}v${-chart.height}Z` : `M${x} ${chart.top}V${chart.bottom}`);
}

// zoomable lets a chart be cut to a range of time: by dragging over it, by + for the half around what is
// read, and back by - or Escape. The range is in the address, and the server draws it.
function zoomable(chart) {
  const time = (x) => chart.from + (chart.to - chart.from) * (Math.min(Math.max(x, chart.left), chart.right) - chart.left) / (chart.right - chart.left);
  let start = null, range = null;
  chart.svg.addEventListener("pointerdown", (e) => {
    if (e.pointerType !== "mouse" || e.button !== 0) return; // a finger scrolls
    start = place(chart, e);
    chart.svg.setPointerCapture(e.pointerId);
    range = chart.svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    for (const [name, value] of Object.entries({ class: "chosen", x: start, width: 0, y: chart.top, height: chart.bottom - chart.top })) range.setAttribute(name, value);
  });
  chart.svg.addEventListener("pointermove", (e) => {
    if (start === null) return;
    const now = place(chart, e);
    range.setAttribute("x", Math.min(start, now));
    range.setAttribute("width", Math.abs(now - start));
  });
  chart.svg.addEventListener("pointerup", (e) => {
    if (start === null) return;
    const [low, high] = [start, place(chart, e)].sort((a, b) => a - b);
    start = null;
    range.remove();
    if (high - low > 4) cut(time(low), time(high)); // less is a click
  });
  chart.drawing.addEventListener("keydown", (e) => {
    const half = (chart.to - chart.from) / 4, at = time(chart.places[Number(chart.drawing.getAttribute("aria-valuenow"))]);
    if (e.key === "+") cut(Math.max(at - half, chart.from), Math.min(at + half, chart.to));
    if (e.key === "-") document.getElementById("all")?.click();
  });
}

function cut(from, to) {
  const fine = [1, 10, 1000].find((parts) => (to - from) * parts >= 20); // parts of a second that can be seen
  if (!fine) return;
  const address = new URL(location.href);
  address.searchParams.set("from", Math.floor(from * fine) / fine);
  address.searchParams.set("to", Math.ceil(to * fine) / fine);
  location.assign(address);
}

document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") document.getElementById("all")?.click(); // after a drag no chart has the focus
});
document.documentElement.classList.add("scripts");
prepare(document);
