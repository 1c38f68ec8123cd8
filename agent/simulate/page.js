// The report of a simulation: its curves against time, steps, samples or bytes. chart.js comes before it.
"use strict";
const data = JSON.parse(byId("data").textContent);
const axes = [["virtual time", " (s)", short], ["steps", "", whole], ["samples", "", whole], ["bytes", "", bytes]];
const hidden = new Set();
let axis = 0;

const nameOf = series => series.name === "swarm" ? "swarm (average)" : series.name === "mean" ? "mean model" :
  series.name;

// What a chart shows of a point, and where the band of the agents lies in it.
const charts = [
  { title: "Loss", axis: "loss", value: 4, band: [0, 1], log: true, text: short },
  { title: "Accuracy", axis: "accuracy", value: 5, band: [2, 3], log: false, text: v => Math.round(100 * v) + " %" },
  { title: "Distance to the mean model", about: "Of the agents' models, rms. Logarithmic.",
    axis: "rms distance", value: 6, log: true, text: short },
];

function drawChart(host, chart) {
  const shown = data.series.map((s, i) => ({ ...s, i })).filter(s => !hidden.has(s.i));
  const good = p => p[chart.value] !== null && (!chart.log || p[chart.value] > 0);
  const values = shown.flatMap(s => s.points.filter(good).map(p => p[chart.value]));
  if (!values.length) return;
  const section = html(host, "section");
  html(section, "h2", chart.title);
  if (chart.about) html(section, "p", chart.about);
  const width = Math.max(230, section.clientWidth - 42), height = 300;
  const box = { left: 62, right: width - 12, top: 30, bottom: height - 44 };
  const high = chart.log ? Math.max(...values) * 1.05 : 1;
  const low = chart.log ? Math.max(Math.min(...values), high / 1e8) : 0;
  const far = Math.max(...shown.flatMap(s => s.points.map(p => p[axis])), 1e-9);
  const x = scale(0, far, box.left, box.right), flat = scale(low, high, box.bottom, box.top, chart.log);
  const y = v => flat(Math.max(v, low));
  const svg = draw(section, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": chart.title });
  drawFrame(svg, box,
    { at: x, ticks: ticksOf(0, far, 5), text: axes[axis][2], title: axes[axis][0] + axes[axis][1] },
    { at: y, ticks: chart.log ? logTicksOf(low, high) : ticksOf(low, high, 5), text: chart.text, title: chart.axis });
  if (axis === 0) drawEvents(svg, box, x);
  for (const series of shown) drawSeries(svg, chart, series, good, x, y, high);
}

function drawEvents(svg, box, x) {
  data.events.forEach((event, k) => {
    draw(svg, "line", { x1: x(event.t), x2: x(event.t), y1: box.top, y2: box.bottom, stroke: "var(--soft)",
      "stroke-dasharray": "2 3" });
    const left = x(event.t) > (box.left + box.right) / 2;
    draw(svg, "text", { x: x(event.t) + (left ? -4 : 4), y: box.top - 4 + 13 * (k % 3), class: "halo",
      "text-anchor": left ? "end" : "start" }, event.text);
  });
}

function drawSeries(svg, chart, series, good, x, y, high) {
  const at = (p, v) => x(p[axis]).toFixed(1) + " " + y(v).toFixed(1);
  if (chart.band && series.band.length && series.band[0][chart.band[0]] !== null) {
    const edge = k => series.points.map((p, i) => at(p, Math.min(high, series.band[i][chart.band[k]] ?? high)));
    draw(svg, "path", { d: "M" + [...edge(0), ...edge(1).reverse()].join("L") + "Z", style: `fill:${color(series.i)}`,
      opacity: 0.16 });
  }
  const points = series.points.filter(good);
  if (!points.length) return;
  draw(svg, "path", { d: "M" + points.map(p => at(p, p[chart.value])).join("L"), fill: "none",
    style: `stroke:${color(series.i)}`, "stroke-width": series.name === "mean" ? 2.5 : 1.75,
    "stroke-linejoin": "round", "stroke-dasharray": dashes(series.i) });
  const last = points[points.length - 1];
  const dot = draw(svg, "circle", { cx: x(last[axis]), cy: y(last[chart.value]), r: 3.5,
    style: `fill:${color(series.i)}` });
  draw(dot, "title", {}, series.name + ": " + last[chart.value]);
}

// A radio button or a check box with its words; `fill` is the color of a series.
function choice(host, type, words, checked, chosen, fill) {
  const label = html(host, "label"), button = html(label, "input");
  button.type = type;
  button.name = host.id;
  button.checked = checked;
  button.onchange = () => { chosen(button.checked); drawAll(); };
  label.append(" ");
  if (fill) html(label, "i").style.background = fill;
  label.append(words);
}

function fillTable() {
  const head = html(html(byId("table"), "thead"), "tr"), body = html(byId("table"), "tbody");
  const names = ["Series", "Virtual time", "Steps", "Samples", "Sent", "Loss", "Accuracy", "Distance"];
  names.forEach((name, i) => html(head, "th", name, i ? "" : "left"));
  const text = [seconds, whole, whole, bytes, short, percent, short];
  data.series.forEach((series, i) => {
    if (!series.points.length) return;
    const row = html(body, "tr"), name = html(row, "td", undefined, "left");
    html(name, "i", undefined, "dot").style.background = color(i);
    name.append(nameOf(series));
    series.points[series.points.length - 1].forEach((v, k) => {
      html(row, "td", v === null ? "\u2013" : text[k](v)).dataset.name = names[k + 1];
    });
  });
}

function drawAll() {
  const host = byId("charts");
  host.replaceChildren();
  charts.forEach(chart => drawChart(host, chart));
}

byId("title").textContent = data.title;
byId("command").textContent = data.command;
byId("remarks").textContent = data.remarks.join("; ");
byId("remarks").hidden = !data.remarks.length;
document.title = data.title + " \u2013 Starling simulation";
axes.forEach(([name], i) => choice(byId("axes"), "radio", name, i === 0, () => { axis = i; }));
const legendOf = series => nameOf(series) + (series.name === "swarm" ? ", best to worst agent" : "");
data.series.forEach((series, i) => choice(byId("legend"), "checkbox", legendOf(series), true,
  checked => { hidden[checked ? "delete" : "add"](i); }, color(i)));
fillTable();
fillFacts("pairs-table", data.pair_facts, []);
byId("pairs").hidden = !data.pair_facts.agents.length;
fillLogs(data.logs.map((log, i) => ({ name: "agent " + i, log })).filter(a => a.log));
drawAll();
addEventListener("resize", drawAll);
