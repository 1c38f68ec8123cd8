// The page of a simulation's report.html before and after its data. No outside address.
#pragma once

#include <string_view>

namespace starling {

inline constexpr std::string_view kSimulatePageHead = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Starling simulation</title>
<style>
:root {
  color-scheme: light dark;
  --page: #fafaf8; --card: #ffffff; --ink: #17191e; --soft: #5d636e; --line: #e4e4df; --hair: #efefeb;
  --c0: #2c63d2; --c1: #17191e; --c2: #d2691e; --c3: #16876a; --c4: #8447c4; --c5: #c2347b; --c6: #8f7200;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121417; --card: #191c20; --ink: #e9eaed; --soft: #a3a9b4; --line: #2b2f35; --hair: #23272c;
    --c0: #7aa5ff; --c1: #e9eaed; --c2: #f39a54; --c3: #4fc9a3; --c4: #bf91f5; --c5: #f27fb4; --c6: #d9b945;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font-variant-numeric: tabular-nums;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 8px; font-weight: 650; }
p { color: var(--soft); margin: 0 0 12px; max-width: 90ch; }
.bar { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; margin: 18px 0; color: var(--soft); }
.bar b { font-weight: 550; color: var(--ink); }
.bar i { display: inline-block; width: 18px; height: 3px; border-radius: 2px; margin-right: 7px;
  vertical-align: middle; }
label { cursor: pointer; }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 20px; }
@media (max-width: 760px) { .grid { grid-template-columns: minmax(0, 1fr); } main { padding: 24px 14px 48px; } }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px 10px;
  min-width: 0; }
h2 { font-size: 16px; margin: 0 0 6px; font-weight: 620; }
svg { display: block; overflow: visible; }
svg text { font-size: 12px; fill: var(--soft); }
table { border-collapse: collapse; font-size: 14px; margin-top: 24px; }
th { text-align: right; font-weight: 500; color: var(--soft); font-size: 12.5px; padding: 6px 12px; }
td { text-align: right; padding: 6px 12px; border-top: 1px solid var(--hair); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
</style>
</head>
<body>
<main>
<h1 id="title"></h1>
<p id="command"></p>
<p id="remarks"></p>
<div class="bar" id="axes"><b>against</b></div>
<div class="bar" id="legend"></div>
<div class="grid" id="charts"></div>
<div style="overflow-x:auto"><table id="table"></table></div>
</main>
<noscript><main>The charts of this page need JavaScript; the numbers are in curve.csv beside it.</main></noscript>
<script type="application/json" id="data">)page";

inline constexpr std::string_view kSimulatePageTail = R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const color = i => `var(--c${i % 7})`;
const axes = [["virtual time", "s"], ["steps", ""], ["samples", ""], ["bytes", "B"]];
const hidden = new Set();
let axis = 0;

function node(parent, tag, attributes, text) {
  const svg = parent instanceof SVGElement || tag === "svg";
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function short(v) {
  if (v === 0) return "0";
  const size = Math.abs(v);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return Number((v / (letter === "k" ? 1e3 : unit)).toPrecision(3)) + " " + letter;
  return size < 1e-3 ? v.toExponential(0) : String(Number(v.toPrecision(3)));
}

function ticksOf(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

// What a chart shows of a point, and where the band of the agents lies in it.
const charts = [
  { title: "Loss", value: 4, band: [0, 1], log: true },
  { title: "Accuracy", value: 5, band: [2, 3], log: false },
  { title: "Models apart (rms distance to their mean)", value: 6, log: true },
];

function drawChart(host, chart) {
  const shown = data.series.map((s, i) => ({ ...s, i })).filter(s => !hidden.has(s.i));
  const good = p => p[chart.value] !== null && (!chart.log || p[chart.value] > 0);
  const values = shown.flatMap(s => s.points.filter(good).map(p => p[chart.value]));
  if (!values.length) return;
  const section = node(host, "section");
  node(section, "h2", {}, chart.title);
  const width = Math.max(280, section.clientWidth - 38), height = 260;
  const box = { left: 52, right: width - 8, top: 26, bottom: height - 26 };
  const flat = chart.log ? Math.log10 : v => v;
  let low = chart.log ? Math.min(...values) : 0, high = chart.log ? Math.max(...values) * 1.05 : 1;
  if (chart.log && high / low > 1e8) low = high / 1e8;
  const far = Math.max(...shown.flatMap(s => s.points.map(p => p[axis])), 1e-9);
  const x = v => box.left + v / far * (box.right - box.left);
  const y = v => box.bottom - (flat(Math.max(v, low)) - flat(low)) / (flat(high) - flat(low) || 1) *
    (box.bottom - box.top);
  const svg = node(section, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": chart.title });
  const rows = chart.log ? (high / low < 30 ? ticksOf(low, high, 5) :
    ticksOf(flat(low), flat(high), 6).filter(Number.isInteger).map(p => 10 ** p)) : ticksOf(low, high, 5);
  for (const v of rows) {
    node(svg, "line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v), stroke: "var(--hair)" });
    node(svg, "text", { x: box.left - 8, y: y(v) + 4, "text-anchor": "end" },
      chart.value === 5 ? Math.round(100 * v) + " %" : short(v));
  }
  for (const v of ticksOf(0, far, 5))
    node(svg, "text", { x: x(v), y: height - 6, "text-anchor": "middle" }, short(v) + axes[axis][1]);
  node(svg, "line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, stroke: "var(--line)" });
  if (axis === 0) data.events.forEach((event, k) => {
    node(svg, "line", { x1: x(event.t), x2: x(event.t), y1: box.top, y2: box.bottom, stroke: "var(--soft)",
      "stroke-dasharray": "2 3" });
    const left = x(event.t) > (box.left + box.right) / 2;
    node(svg, "text", { x: x(event.t) + (left ? -4 : 4), y: box.top - 4 + 13 * (k % 3),
      "text-anchor": left ? "end" : "start" }, event.text);
  });
  for (const s of shown) {
    const at = (p, v) => x(p[axis]).toFixed(1) + " " + y(v).toFixed(1);
    if (chart.band && s.band.length && s.band[0][chart.band[0]] !== null) {
      const edge = k => s.points.map((p, i) => at(p, s.band[i][chart.band[k]] ?? high));
      node(svg, "path", { d: "M" + [...edge(0), ...edge(1).reverse()].join("L") + "Z", style: `fill:${color(s.i)}`,
        opacity: 0.16 });
    }
    const points = s.points.filter(good);
    if (!points.length) continue;
    node(svg, "path", { d: "M" + points.map(p => at(p, p[chart.value])).join("L"), fill: "none",
      style: `stroke:${color(s.i)}`, "stroke-width": s.name === "mean" ? 2.5 : 1.75, "stroke-linejoin": "round" });
    const last = points[points.length - 1];
    const dot = node(svg, "circle", { cx: x(last[axis]), cy: y(last[chart.value]), r: 3.5,
      style: `fill:${color(s.i)}` });
    node(dot, "title", {}, s.name + ": " + last[chart.value]);
  }
}

function drawAll() {
  const host = byId("charts");
  host.replaceChildren();
  charts.forEach(chart => drawChart(host, chart));
}
byId("title").textContent = data.title;
byId("command").textContent = data.command;
byId("remarks").textContent = data.remarks.join("; ");
axes.forEach(([name], i) => {
  const label = node(byId("axes"), "label");
  const button = node(label, "input", { type: "radio", name: "axis" });
  button.checked = i === 0;
  button.onchange = () => { axis = i; drawAll(); };
  label.append(" " + name);
});
data.series.forEach((s, i) => {
  const label = node(byId("legend"), "label");
  const button = node(label, "input", { type: "checkbox" });
  button.checked = true;
  button.onchange = () => { hidden[button.checked ? "delete" : "add"](i); drawAll(); };
  label.append(" ");
  node(label, "i", { style: `background:${color(i)}` });
  label.append(s.name === "swarm" ? "swarm: average agent, best to worst" : s.name === "mean" ?
    "mean of the agents' params" : s.name);
});
const head = node(byId("table"), "tr");
for (const name of ["", "virtual s", "steps", "samples", "bytes", "loss", "accuracy", "apart"])
  node(head, "th", {}, name);
for (const s of data.series) {
  if (!s.points.length) continue;
  const row = node(byId("table"), "tr"), last = s.points[s.points.length - 1];
  node(row, "td", {}, s.name);
  last.forEach((v, k) => node(row, "td", {}, v === null ? "\u2013" : k === 5 ? (100 * v).toFixed(1) + " %" :
    k > 3 ? Number(v.toPrecision(4)) : k === 0 ? v.toFixed(2) : v.toLocaleString("en")));
}
drawAll();
addEventListener("resize", drawAll);
</script>
</body>
</html>
)page";

}  // namespace starling
