// The page of report.html before its data: structure and style. No outside address. (report_script.h follows the data.)
#pragma once

#include <string_view>

namespace starling {

inline constexpr std::string_view kReportPageHead = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Starling swarm report</title>
<style>
:root {
  color-scheme: light dark;
  --page: #fafaf8; --card: #ffffff; --ink: #17191e; --soft: #5d636e; --faint: #9aa0ab; --line: #e4e4df;
  --hair: #efefeb;
  --accent: #2c63d2; --warn: #b4371f;
  --c0: #2c63d2; --c1: #d2691e; --c2: #16876a; --c3: #8447c4; --c4: #c2347b; --c5: #8f7200; --c6: #0b86a0;
  --c7: #6b6f2a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121417; --card: #191c20; --ink: #e9eaed; --soft: #a3a9b4; --faint: #707783; --line: #2b2f35;
    --hair: #23272c;
    --accent: #7aa5ff; --warn: #ff8b70;
    --c0: #7aa5ff; --c1: #f39a54; --c2: #4fc9a3; --c3: #bf91f5; --c4: #f27fb4; --c5: #d9b945; --c6: #56c6de;
    --c7: #b7bb62;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
header .kind { display: flex; justify-content: space-between; gap: 16px; color: var(--soft); font-size: 13px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; margin: 10px 0 12px; font-weight: 650; }
.summary { font-size: 18px; line-height: 1.55; max-width: 72ch; margin: 0; }
.remark { margin: 14px 0 0; padding-left: 12px; border-left: 3px solid var(--c1); color: var(--soft);
  max-width: 72ch; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 1px; margin: 28px 0;
  background: var(--line); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.tile { background: var(--card); padding: 16px 18px; }
.tile b { display: block; font-size: 24px; line-height: 1.2; font-weight: 620; letter-spacing: -0.01em; }
.tile span { color: var(--soft); font-size: 13px; }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 20px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 20px 14px; min-width: 0; }
section.wide { grid-column: 1 / -1; }
@media (max-width: 760px) { .grid { grid-template-columns: minmax(0, 1fr); } main { padding: 24px 14px 48px; } }
h2 { font-size: 16px; margin: 0; font-weight: 620; }
section > p { margin: 2px 0 10px; color: var(--soft); font-size: 13px; }
svg { display: block; overflow: visible; touch-action: pan-y; }
svg text { font-size: 12px; fill: var(--soft); }
.halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: right; font-weight: 500; color: var(--soft); font-size: 12.5px; padding: 6px 10px;
  white-space: nowrap; }
td { text-align: right; padding: 7px 10px; border-top: 1px solid var(--hair); white-space: nowrap; }
th.left, td.left { text-align: left; }
.dot { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 8px; }
.bad { color: var(--warn); }
#tip { position: absolute; z-index: 9; pointer-events: none; visibility: hidden; background: var(--card);
  color: var(--ink);
  border: 1px solid var(--line); border-radius: 8px; padding: 8px 11px; font-size: 12.5px; line-height: 1.45;
  box-shadow: 0 6px 24px rgb(0 0 0 / 0.16); }
#tip .when { color: var(--soft); margin-bottom: 3px; }
#tip .row { display: flex; justify-content: space-between; gap: 18px; align-items: baseline; }
footer { margin-top: 28px; color: var(--faint); font-size: 13px; }
</style>
</head>
<body>
<main>
<header>
  <div class="kind"><span>starling &middot; swarm report</span><span id="made"></span></div>
  <h1 id="title"></h1>
  <p class="summary" id="summary"></p>
  <p class="remark" id="remark" hidden></p>
</header>
<div class="tiles" id="tiles"></div>
<div class="grid">
  <section class="wide">
    <h2>Accuracy on all classes</h2>
    <p>Measured by each agent with its own copy of the model, on test data of every class.</p>
    <div id="accuracy"></div>
  </section>
  <section>
    <h2>Training loss</h2>
    <p>On each agent's own data.</p>
    <div id="loss"></div>
  </section>
  <section>
    <h2>Distance between models</h2>
    <p>To the last partner, relative to the size of the model; logarithmic.</p>
    <div id="distance"></div>
  </section>
  <section>
    <h2>Who exchanged with whom</h2>
    <p>Exchanges that both sides completed, as each row counted them.</p>
    <div id="partners" class="scroll"></div>
  </section>
  <section>
    <h2>Bytes on the wire</h2>
    <p>All traffic of an agent: models, probes, joining.</p>
    <div id="bytes"></div>
  </section>
  <section class="wide">
    <h2>Agents</h2>
    <p>Alone: the same data trained for as many steps without a swarm.</p>
    <div class="scroll"><table id="table"></table></div>
  </section>
</div>
<footer>Everything on this page is inside this file; it needs no network.</footer>
</main>
<div id="tip"></div>
<noscript><main>The charts of this page need JavaScript; the numbers are in report.json beside it.</main></noscript>
<script type="application/json" id="data">)page";

}  // namespace starling
