// What the pages of `swarm` and `simulate` draw with: nodes, numbers for people, the frame of a chart.
"use strict";
const byId = id => document.getElementById(id);
const color = i => `var(--c${i % 8})`;
const dashes = i => i >= 8 ? "5 3" : "none";   // beyond the eighth a color comes again

const percent = v => v === null || v === undefined ? "\u2013" : (100 * v).toFixed(1) + " %";
const whole = n => n.toLocaleString("en").replace(/,/g, "\u202f");
const seconds = s => s.toFixed(1) + " s";
const raised = n => String(n).replace(/./g, c => c === "-" ? "\u207b" :
  "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c]);

function bytes(n) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (n >= size) return (n / size).toFixed(1) + " " + unit;
  return n + " B";
}

// Three digits; large and small ones as powers of ten.
function short(v) {
  if (v === 0) return "0";
  if (Math.abs(v) >= 0.00099 && Math.abs(v) < 10000) return String(Number(v.toPrecision(3)));
  const power = Math.floor(Math.log10(Math.abs(v)) + 1e-9), lead = (v / 10 ** power).toPrecision(2);
  return (lead === "1.0" ? "10" : lead + "\u00d710") + raised(power);
}

function html(parent, tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  parent.append(node);
  return node;
}

function draw(parent, tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// In pixels, of a label beside a curve.
const pen = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  pen.font = "600 12px " + getComputedStyle(document.body).fontFamily;
  return pen.measureText(text).width;
}

// Round numbers from low to high, about `count` of them.
function ticksOf(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

// Powers of ten; round numbers between where the range holds fewer than two of them.
function logTicksOf(low, high) {
  const powers = ticksOf(Math.log10(low), Math.log10(high), 6).filter(Number.isInteger).map(p => 10 ** p);
  return powers.length > 1 ? powers : ticksOf(low, high, 5);
}

// A scale from [low, high] to [from, to].
function scale(low, high, from, to, log) {
  const flat = log ? Math.log10 : v => v, span = flat(high) - flat(low) || 1;
  return v => from + (flat(v) - flat(low)) / span * (to - from);
}

// The lines, numbers and titles around a chart. `axis` has at (the scale), ticks, text (of a tick) and title.
function drawFrame(svg, box, across, up) {
  for (const v of up.ticks) {
    draw(svg, "line", { x1: box.left, x2: box.right, y1: up.at(v), y2: up.at(v), stroke: "var(--hair)" });
    draw(svg, "text", { x: box.left - 8, y: up.at(v) + 4, "text-anchor": "end" }, up.text(v));
  }
  for (const v of across.ticks)
    draw(svg, "text", { x: across.at(v), y: box.bottom + 18, "text-anchor": "middle" }, across.text(v));
  draw(svg, "line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, stroke: "var(--line)" });
  draw(svg, "text", { x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" }, across.title);
  draw(svg, "text", { transform: `translate(${box.left - 52} ${(box.top + box.bottom) / 2}) rotate(-90)`,
    "text-anchor": "middle" }, up.title);
}

// A table of facts: {agents: [name..], rows: [[what, value..]..]}; `fills` are colors by agent, or nothing.
function fillFacts(id, facts, fills) {
  const head = html(html(byId(id), "thead"), "tr"), body = html(byId(id), "tbody");
  html(head, "th", "", "left");
  facts.agents.forEach((name, i) => {
    const cell = html(head, "th");
    if (fills[i]) html(cell, "i", undefined, "dot").style.background = fills[i];
    cell.append(name);
  });
  for (const cells of facts.rows) {
    const row = html(body, "tr");
    cells.forEach((text, k) => html(row, k ? "td" : "th", text, k ? "" : "left"));
  }
}

// Logs of updates: {name, fill: a color or nothing, log: as print_log() says}. Agents that all have one log need no
// reading: where logs differ, the page says so and the details stand open.
function fillLogs(logs) {
  if (!logs.length) return;
  const same = logs.every(a => a.log.head === logs[0].log.head);
  const row = (name, text) => [name, ...logs.map(a => text(a.log))];
  const ms = (name, k) => row(name, log => log.step_ms[k] === null ? "-" : log.step_ms[k].toFixed(1));
  fillFacts("log-table", { agents: logs.map(a => a.name), rows: [
    row("log (first digits of its hash)", log => log.head.slice(0, 8)),
    row("entries", log => whole(log.entries)),
    row("entries that it lacks", log => whole(log.behind)),
    row("replaced by another log", log => whole(log.splits)),
    row("slices taken over as a whole", log => whole(log.states)),
    row("learned but not yet in the log (norm)", log => short(log.residual_norm)),
    row("buckets, and their first round", log => log.buckets ? `${log.buckets} since ${log.plan_since}` : "-"),
    row("sent per round", log => bytes(log.sent_a_round)),
    row("received per round", log => bytes(log.received_a_round)),
    ms("ms per step: forward", 0), ms("ms per step: backward", 1), ms("ms per step: other computing", 2), ms("ms per step: encoding", 3),
    ms("ms per step: waiting for the exchange", 4), ms("ms per step: choosing what is sent", 5),
    row("messages refused", log => whole(log.refused) + (log.refused_last ? `, last of ${log.refused_last}` : "")),
  ].filter(cells => cells.slice(1).some(text => text !== "-")) }, logs.map(a => a.fill));
  byId("log-same").textContent = same ? "All agents hold the same log, and so the same model, to the bit." :
    "The logs differ: these agents do not all hold one model.";
  byId("log-same").className = same ? "" : "bad";
  byId("log-details").open = !same;
  byId("log").hidden = false;
}
