// The report of a local swarm: charts and tables out of the data that the page holds. chart.js comes before it.
"use strict";
const report = JSON.parse(byId("data").textContent);
const agents = report.agents;
const tip = byId("tip");

function showTip(event, fill) {
  tip.replaceChildren();
  fill(tip);
  tip.style.visibility = "visible";
  const left = event.pageX + 16 + tip.offsetWidth > scrollX + innerWidth ? event.pageX - 16 - tip.offsetWidth :
    event.pageX + 16;
  tip.style.left = Math.max(scrollX + 4, left) + "px";
  tip.style.top = event.pageY + 14 + "px";
}
const hideTip = () => { tip.style.visibility = "hidden"; };

function tipRow(parent, fill, name, value) {
  const row = html(parent, "div", undefined, "row"),
    label = html(row, "span");
  if (fill) html(label, "i", undefined, "dot").style.background = fill;
  label.append(name);
  html(row, "b", value);
}

// Moves labels apart: `labels` have y, the place they would like; afterwards at, the place they get. Their order by y
// stays, and labels that would cover each other stand around their common middle.
function spread(labels, gap, top, bottom) {
  labels.sort((a, b) => a.y - b.y);
  const groups = [], heightOf = g => (g.labels.length - 1) * gap,
    startOf = g => Math.max(top, Math.min(bottom - heightOf(g), g.sum / g.labels.length - heightOf(g) / 2));
  for (const label of labels) {
    groups.push({ labels: [label], sum: label.y });
    for (let k = groups.length - 1; k > 0; --k) {
      if (startOf(groups[k]) - startOf(groups[k - 1]) - heightOf(groups[k - 1]) >= gap) break;
      const last = groups.pop();
      groups[k - 1].labels.push(...last.labels);
      groups[k - 1].sum += last.sum;
    }
  }
  for (const group of groups) group.labels.forEach((label, i) => { label.at = startOf(group) + i * gap; });
}
const times = agents.flatMap(a => Object.values(a.curves).flatMap(c => c.map(p => p[0])))
  .concat(report.moments.map(m => m.t));
const killedAt = i => report.moments.find(m => m.agent === i && m.what === "killed")?.t;
const tLow = Math.min(0, ...times),
  tHigh = Math.max(1, ...times);

const relative = v => v === null ? "\u2013" : short(Number(v.toPrecision(2)));
const LABELS_MAX = 16;   // beside the curves: more would cover each other

function lineChart(id, options) {
  const host = byId(id),
    width = Math.max(230, host.clientWidth),
    height = options.height;
  const curves = agents.map(a => a.curves[options.curve].filter(p => !options.log || p[2] > 0));
  const all = curves.flatMap(c => c.map(p => p[2]));
  host.replaceChildren();
  if (!all.length) { html(host, "p", "Nothing was measured."); return; }
  const roomy = width > 480,
    names = curves.flatMap((c, i) => c.length && killedAt(i) === undefined ?
      [agents[i].name + (roomy ? " " + options.format(c[c.length - 1][2]) : "")] : []),
    named = options.references ? referenceNames(roomy) : [],
    beside = names.length + named.length <= LABELS_MAX ? [...names, ...named] : [],
    lead = beside.length > 1 ? (roomy ? 26 : 14) : 8,
    gutter = lead + 14 + Math.max(0, ...beside.map(textWidth));
  const box = { left: 62, right: width - gutter, top: 30, bottom: height - 44 };
  const powerOf = (v, round) => 10 ** round(Math.log10(v));
  const least = Math.min(...all), most = Math.max(...all);
  const [low, high] = options.log ? [powerOf(least, Math.floor), powerOf(most * 1.0001, Math.ceil)] :
    options.domain || [0, most * 1.05];
  const x = scale(tLow, tHigh, box.left, box.right), y = scale(low, high, box.bottom, box.top, options.log);
  const svg = draw(host, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": options.label });
  drawFrame(svg, box,
    { at: x, ticks: ticksOf(tLow, tHigh, Math.max(3, (box.right - box.left) / 90)), text: short,
      title: "seconds since the first agents had joined" },
    { at: y, ticks: options.log ? logTicksOf(low, high) : ticksOf(low, high, 5), text: options.tick,
      title: options.axis });
  const ends = curves.map(c => c.length ? { x: x(c[c.length - 1][0]), y: y(Math.min(high, c[c.length - 1][2])) } : null);
  drawMoments(svg, box, x, ends);
  const labels = options.references ? drawReferences(svg, box, y, roomy) : [];
  curves.forEach((curve, i) => {
    if (!curve.length) return;
    const path = "M" + curve.map(p => x(p[0]).toFixed(1) + " " + y(Math.min(high, p[2])).toFixed(1)).join("L");
    draw(svg, "path", { d: path, fill: "none", style: `stroke:${color(i)}`, "stroke-width": 2,
      "stroke-linejoin": "round", "stroke-linecap": "round", "stroke-dasharray": dashes(i) });
    if (killedAt(i) !== undefined) return;
    const last = curve[curve.length - 1], end = ends[i];
    draw(svg, "circle", { cx: end.x, cy: end.y, r: 3.5, style: `fill:${color(i)}` });
    labels.push({ y: end.y, x: end.x, text: agents[i].name + (roomy ? " " + options.format(last[2]) : ""),
      fill: color(i) });
  });
  if (labels.length <= LABELS_MAX) drawEndLabels(svg, box, labels, lead);
  hoverLayer(svg, box, curves, x, y, high, options);
}

// The line of a moment and, where an agent was killed, the cross that ends its curve: one place for both.
function drawMoments(svg, box, x, ends) {
  const sorted = report.moments.map(m => ({ ...m, i: m.agent, text: agents[m.agent].name + " " + m.what, at: x(m.t) })).sort((a, b) => a.at - b.at), room = 98;
  let taken = box.left - 4; // up to here the line of labels is full
  sorted.forEach((moment, k) => {
    const next = k + 1 < sorted.length ? sorted[k + 1].at : box.right + 60;
    moment.left = next - moment.at < room && moment.at - room > taken;
    moment.row = !moment.left && moment.at < taken ? 1 : 0;
    if (moment.row === 0) taken = moment.left ? moment.at : moment.at + room;
    moment.top = box.top - 6 - moment.row * 13;
    draw(svg, "line", { x1: moment.at, x2: moment.at, y1: moment.top, y2: box.bottom,
      style: `stroke:${color(moment.i)}`, "stroke-dasharray": "2 3" });
    const end = ends[moment.i];
    if (moment.what !== "killed" || !end) return;
    if (end.x < moment.at) draw(svg, "line", { x1: end.x, x2: moment.at, y1: end.y, y2: end.y,
      style: `stroke:${color(moment.i)}`, "stroke-width": 1.5, "stroke-dasharray": "3 3" });
    draw(svg, "path", { d: `M${moment.at - 4} ${end.y - 4}l8 8m0 -8l-8 8`, style: `stroke:${color(moment.i)}`,
      "stroke-width": 2.5 });
  });
  for (const moment of sorted) {
    draw(svg, "text", { x: moment.at + (moment.left ? -5 : 5), y: moment.top - 2, class: "halo",
      "text-anchor": moment.left ? "end" : "start",
      style: `fill:${color(moment.i)};font-weight:550` }, moment.text);
  }
}

const aloneName = (alone, roomy) => {
  const low = Math.min(...alone), high = Math.max(...alone), same = percent(low) === percent(high);
  return !roomy ? "alone" : "alone " +
    (same ? percent(low) : `${(100 * low).toFixed(0)}\u2013${(100 * high).toFixed(0)} %`);
};
const centralName = roomy => "central" + (roomy ? " " + percent(report.central) : "");

function referenceNames(roomy) {
  const alone = report.alone.filter(v => v !== null);
  return [...(alone.length ? [aloneName(alone, roomy)] : []), ...(report.central !== null ? [centralName(roomy)] : [])];
}

function drawReferences(svg, box, y, roomy) {
  const labels = [],
    alone = report.alone.filter(v => v !== null);
  for (const v of alone) draw(svg, "line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v),
    stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "1.5 4", "stroke-linecap": "round" });
  if (alone.length) {
    const between = (Math.min(...alone) + Math.max(...alone)) / 2;
    labels.push({ y: y(between), x: box.right, text: aloneName(alone, roomy), fill: "var(--soft)" });
  }
  if (report.central !== null) {
    const at = y(report.central);
    draw(svg, "line", { x1: box.left, x2: box.right, y1: at, y2: at, stroke: "var(--soft)", "stroke-width": 1.5,
      "stroke-dasharray": "7 5" });
    labels.push({ y: at, x: box.right, text: centralName(roomy), fill: "var(--soft)" });
  }
  return labels;
}

// Leaders start at one x in the order of their labels, so none crosses another.
function drawEndLabels(svg, box, labels, lead) {
  spread(labels, 16, box.top, box.bottom + 6);
  const from = box.right + 6, to = box.right + lead + 4;
  for (const label of labels) {
    const line = (d, dash) => draw(svg, "path", { d, fill: "none", style: `stroke:${label.fill}`, "stroke-width": 0.8,
      opacity: 0.6, "stroke-dasharray": dash });
    if (label.x < box.right - 8) line(`M${label.x + 5} ${label.y}H${from}`, "2 3");
    line(`M${from} ${label.y}L${to} ${label.at}`, "none");
    draw(svg, "text", { x: to + 4, y: label.at + 4, class: "halo", style: `fill:${label.fill};font-weight:550` },
      label.text);
  }
}

function hoverLayer(svg, box, curves, x, y, high, options) {
  const hair = draw(svg, "line", { y1: box.top, y2: box.bottom, stroke: "var(--faint)", visibility: "hidden" });
  const dots = curves.map((c, i) => draw(svg, "circle", { r: 4.5,
    style: `fill:${color(i)};stroke:var(--card);stroke-width:2`, visibility: "hidden" }));
  const cover = draw(svg, "rect", { x: box.left, y: box.top, width: Math.max(1, box.right - box.left),
    height: box.bottom - box.top, fill: "transparent" });
  const hide = () => { hideTip();
    [hair, ...dots].forEach(n => n.setAttribute("visibility", "hidden")); };
  cover.addEventListener("pointerleave", hide);
  cover.addEventListener("pointermove", event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const t = tLow + (at - box.left) / (box.right - box.left) * (tHigh - tLow);
    hide();
    hair.setAttribute("x1", at);
    hair.setAttribute("x2", at);
    hair.setAttribute("visibility", "visible");
    const rows = [];
    curves.forEach((curve, i) => {
      if (!curve.length || t < curve[0][0] - 0.5) return;
      if (agents[i].state !== "finished" && t > (killedAt(i) ?? curve[curve.length - 1][0] + 1)) return;
      const p = curve.findLast(q => q[0] <= t) || curve[0];
      rows.push({ i, p });
      dots[i].setAttribute("cx", x(p[0]));
      dots[i].setAttribute("cy", y(Math.min(high, p[2])));
      dots[i].setAttribute("visibility", "visible");
    });
    rows.sort((a, b) => b.p[2] - a.p[2]);
    showTip(event, tip => {
      const step = rows.length ? ", about step " + whole(Math.max(...rows.map(r => r.p[1]))) : "";
      html(tip, "div", seconds(t) + step, "when");
      for (const row of rows) tipRow(tip, color(row.i), agents[row.i].name, options.format(row.p[2]));
      if (options.references && report.central !== null) tipRow(tip, null, "central", percent(report.central));
    });
  });
}

function partnerMatrix() {
  const host = byId("partners"),
    n = agents.length;
  host.replaceChildren();
  const left = 76,
    cell = Math.max(26, Math.min(58, (host.clientWidth - left - 8) / n)),
    slanted = cell < Math.max(...agents.map(a => textWidth(a.name))),
    top = slanted ? 62 : 26,
    row = Math.min(cell, 44);
  const most = Math.max(1, ...agents.flatMap(a => a.partners));
  const svg = draw(host, "svg", { width: left + n * cell + 8, height: top + n * row + 6, role: "img",
    "aria-label": "completed exchanges of each pair of agents" });
  agents.forEach((from, i) => {
    const head = left + (i + 0.5) * cell;
    draw(svg, "text", slanted ? { transform: `translate(${head} ${top - 8}) rotate(-45)` } : { x: head,
      y: top - 9, "text-anchor": "middle" }, from.name);
    draw(svg, "text", { x: left - 10, y: top + (i + 0.5) * row + 4, "text-anchor": "end" }, from.name);
    agents.forEach((to, k) => {
      const count = from.partners[k],
        place = { x: left + k * cell + 1.5, y: top + i * row + 1.5, width: cell - 3, height: row - 3,
          rx: 4 };
      if (i === k) { draw(svg, "rect", { ...place, fill: "none", stroke: "var(--hair)" }); return; }
      const box = draw(svg, "rect", { ...place,
        style: `fill:${count ? "var(--accent)" : "var(--hair)"};` +
          `fill-opacity:${count ? 0.12 + 0.68 * count / most : 1}` });
      draw(svg, "text", {
        x: left + (k + 0.5) * cell,
        y: top + (i + 0.5) * row + 4,
        "text-anchor": "middle",
        "pointer-events": "none",
        style: `fill:${count > 0.55 * most ? "var(--card)" : "var(--ink)"};font-size:${cell < 40 ? 10 : 12.5}px`
      }, count || "");
      box.addEventListener("pointermove", e => showTip(e, tip => tipRow(tip, null,
        `${from.name} and ${to.name}`, `${whole(count)} exchanges`)));
      box.addEventListener("pointerleave", hideTip);
    });
  });
}

function byteBars() {
  const host = byId("bytes"),
    width = Math.max(260, host.clientWidth),
    row = 42,
    left = 76,
    right = width - 112;
  host.replaceChildren();
  const most = Math.max(1, ...agents.flatMap(a => [a.bytes_sent, a.bytes_received]));
  const svg = draw(host, "svg", { width, height: agents.length * row + 4, role: "img",
    "aria-label": "bytes sent and received" });
  agents.forEach((agent, i) => {
    const y = i * row + 4;
    draw(svg, "text", { x: left - 10, y: y + 20, "text-anchor": "end" }, agent.name);
    [
      [agent.bytes_sent, 0.9, " sent"],
      [agent.bytes_received, 0.45, " received"]
    ].forEach(([count, opacity, word], k) => {
      const length = Math.max(1, (right - left) * count / most),
        bar = draw(svg, "rect", { x: left, y: y + k * 16, width: length, height: 14, rx: 2,
          style: `fill:${color(i)}`, "fill-opacity": opacity });
      draw(svg, "text", { x: left + length + 7, y: y + k * 16 + 11.5, style: "font-size:11.5px" },
        bytes(count) + (i ? "" : word));
      bar.addEventListener("pointermove", e => showTip(e, tip => tipRow(tip, color(i), agent.name +
        word, whole(count) + " bytes")));
      bar.addEventListener("pointerleave", hideTip);
    });
  });
}

function stateOf(agent) {
  const said = [];
  if (agent.newcomer && agent.peer) said.push("joined at " + seconds(agent.joined_at_s));
  if (agent.killed_at_s !== null) said.push("killed at " + seconds(agent.killed_at_s));
  else if (agent.state === "finished" && agent.settled === false) said.push("its model differs");
  else if (agent.state !== "finished" || !said.length) said.push(agent.state);
  return said.join(", ");
}

function fillTable() {
  const head = html(html(byId("table"), "thead"), "tr"), body = html(byId("table"), "tbody"),
    names = ["Agent", "Data", "Accuracy", "Alone", "Central", "Exchanges", "Failed", "Sent", "Steps", "State"],
    left = k => k < 2 || k === names.length - 1 ? "left" : "";
  names.forEach((name, k) => html(head, "th", name, left(k)));
  agents.forEach((agent, i) => {
    const row = html(body, "tr"),
      bad = agent.state === "failed" || agent.state === "finished" && agent.settled === false;
    [agent.name, agent.data, percent(agent.accuracy), percent(agent.alone), percent(report.central),
      whole(agent.completed), whole(agent.exchanges.failed), bytes(agent.bytes_sent), whole(agent.steps),
      stateOf(agent)].forEach((text, k) => {
      const cell = html(row, "td", undefined, left(k));
      cell.dataset.name = names[k];
      if (k === 0) html(cell, "i", undefined, "dot").style.background = color(i);
      cell.append(text);
    });
    row.firstChild.title = "peer " + agent.peer;
    row.lastChild.title = agent.failure;
    if (bad) row.lastChild.classList.add("bad");
  });
}

function fillTiles() {
  const known = list => list.filter(v => v !== null && v !== undefined),
    living = agents.filter(a => a.state === "finished");
  const together = known(living.map(a => a.accuracy)),
    alone = known(report.alone),
    sum = f => agents.reduce((s, a) => s + f(a), 0);
  const tile = (value, name) => {
    const box = html(byId("tiles"), "div", undefined, "tile");
    html(box, "b", value);
    html(box, "span", name);
  };
  if (together.length) tile(percent(Math.min(...together)), together.length > 1 ?
    "lowest accuracy of a living agent" : "accuracy of the living agent");
  if (report.central !== null) tile(percent(report.central), "central: one process with all the data");
  if (alone.length) tile(percent(alone.reduce((a, b) => a + b) / alone.length), "an agent alone, on average");
  if (report.distance !== null) tile(short(report.distance), "rms distance between the final models");
  tile(whole(Math.max(0, ...agents.map(a => a.steps))), "local steps in " + report.seconds.toFixed(0) + " s");
  tile(bytes(sum(a => a.bytes_sent)), "sent by all agents");
}

function drawAll() {
  lineChart("accuracy", { curve: "accuracy", height: 400, domain: [0, 1], references: true,
    label: "accuracy over time", axis: "accuracy", tick: v => Math.round(100 * v) + " %", format: percent });
  lineChart("loss", { curve: "loss", height: 300, label: "loss over time", axis: "loss", tick: short,
    format: v => v.toFixed(3) });
  for (const [id, curve, label] of [
    ["distance", "distance", "distance to the model of the last peer over time"],
    ["swarm-distance", "swarm_distance", "distance to the mean of all models over time"],
    ["spread", "spread", "distance to the farthest model over time"]
  ]) lineChart(id, { curve, height: 300, log: true, label, axis: "relative distance", tick: short, format: relative });
  partnerMatrix();
  byteBars();
}
byId("made").textContent = report.made_at;
byId("title").textContent = report.title;
byId("summary").textContent = report.summary;
if (report.remark) {
  byId("remark").textContent = report.remark;
  byId("remark").hidden = false;
}
document.title = report.title + " \u2013 Starling swarm report";
fillTiles();
fillTable();
fillFacts("facts-table", report.agent_facts, agents.map((_, i) => color(i)));
fillFacts("pairs-table", report.pair_facts, report.pair_facts.agents.map(name =>
  color(agents.findIndex(a => a.name === name))));
byId("pairs").hidden = !report.pair_facts.agents.length;
fillLogs(agents.map((agent, i) => ({ name: agent.name, fill: color(i), log: agent.log })).filter(a => a.log));
drawAll();
let drawnWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === drawnWidth) return;
  drawnWidth = innerWidth;
  drawAll();
});
