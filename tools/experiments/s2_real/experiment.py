"""Time of an iteration of real agents over emulated links, beside what `starling plan` predicts.

Reading: With the rate of all streams at once the forecast holds within the goal. One stream's rate promises too much,
since TCP shares thin links unevenly. Where steps are as short as published the forecast is too long.
"""

import json
import math
import os
import pathlib
import statistics
import subprocess
import time

import lib
from counting import interval95
from lib import LinkedSwarm, Links, busy_s, check_link, processor_s, table, wait_exchanges
from streams_check import check_streams

TABLES = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "configs" / "layers"
AGENTS, WARM_UP = 4, 6
SECONDS = 20
# Of the bytes that a link carries, those with which TCP answers, which `starling plan` adds: a rate that was measured
# with all streams in both directions has them in it.
ACKNOWLEDGING = 52 / (2 * 1448)
PARAMS = {"resnet50": 25_557_032, "lstm": 66_034_000}
CELLS = {  # table, density, ms, Mb/s, ms of backward
  "A": ("resnet50", 0.001, 10, 2.5, 600),
  "B": ("lstm", 0.001, 10, 5, 816),
  "C": ("resnet50", 0.01, 1, 10, 1500),
  "D": ("lstm", 0.001, 1, 100, 204),
}
CONFIG = """
swarm:
  name: experiment
  model: {{kind: quadratic, dimension: {params}}}
  optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0}}
  local_steps: 1
  exchange:
    kind: group
    source: gradients
    overlap: "off"
    update: {{codec: topk, density: {density}, pipeline: on}}
    deadline_min: 50ms
    deadline_max: 20s
  membership: {{probe_interval: 2s, probe_timeout: 1500ms}}
agent:
  checkpoint: {{every: 0s}}
  evaluate_every: 0s
"""


def predicted(cell, rate_mbit):
  """Milliseconds: (forward, a step without exchange, with it)."""
  name, density, ms, _, backward_ms = cell
  command = [
    lib.STARLING,
    "plan",
    "--layers",
    TABLES / f"{name}.yaml",
    "--backward",
    f"{backward_ms}ms",
    "--agents",
    AGENTS,
    "--density",
    density,
    "--link",
    f"{ms}ms,{rate_mbit}mbit",
    "--json",
  ]
  plan = json.loads(subprocess.run([str(x) for x in command], capture_output=True, text=True, check=True).stdout)
  steps = {key: plan["plans"][key]["step_s"] for key in ("per slice", "best")}
  assert 1 - steps["best"] / steps["per slice"] < 0.05, "auto would merge here"
  return 1e3 * plan["forward_s"], 1e3 * (plan["forward_s"] + plan["backward_s"]), 1e3 * steps["per slice"]


def rates(cell):
  """Of an empty link, Mb/s: one stream's; all at once, each exchange as long as a round sends by the first."""
  _, _, ms, mbit, _ = cell
  one = check_link(ms, mbit)["rate_mbit"]
  forward_ms, _, round_ms = predicted(cell, one)
  return one, check_streams(AGENTS, ms, mbit, 1e-3 * (round_ms - forward_ms))


def measured(cell, compute_ms):
  """Milliseconds a round, parts of all processors that the agents took and all else did, part of the rounds that lack
  an entry."""
  name, density, ms, mbit, _ = cell
  config = CONFIG.format(params=PARAMS[name], density=density)
  layered = lib.pace(compute_ms, TABLES / f"{name}.yaml")
  with (
    Links(AGENTS, ms, max(mbit, lib.JOIN_MBIT)) as links,
    LinkedSwarm(config, links, its_pace=lambda i: layered) as swarm,
  ):
    links.tell(f"rate all {mbit}")
    wait_exchanges(swarm.agents, WARM_UP, 90)
    begin, spent, busy = time.time(), processor_s(swarm.agents), busy_s()
    time.sleep(SECONDS)
    took, spent, busy = time.time() - begin, processor_s(swarm.agents) - spent, busy_s() - busy
    rounds, all_ends, late = [], 0, 0
    for agent in swarm.agents:
      ends = [x for x in agent.lines("exchange") if begin <= x["t"] <= begin + took]
      rounds.append(1e3 * (ends[-1]["t"] - ends[0]["t"]) / (ends[-1]["steps"] - ends[0]["steps"]))
      all_ends += len(ends)
      late += sum(x["outcome"] != "done" for x in ends)
  there_is = took * len(os.sched_getaffinity(0))
  return statistics.mean(rounds), spent / there_is, (busy - spent) / there_is, late / all_ends


def milliseconds(mean, half):
  return f"{mean:.0f}" + (f" (± {half:.0f})" if math.isfinite(half) else " (one run)")


def ratio(mean, half, of):
  return f"{mean / of:.2f}" + (f" (± {half / of:.2f})" if math.isfinite(half) else "")


TABLES = [
  ("round", ["cell"]),
]


def run(repeat=1, quick=False, say=print):
  cells = {"A": CELLS["A"]} if quick else CELLS
  rows = []
  links = {name: rates(cell) for name, cell in cells.items()}
  say(links)
  found = {name: [] for name in cells}
  for _ in range(repeat):  # in turn: the machine's load is not the same all the time
    for name, cell in cells.items():
      found[name].append(measured(cell, predicted(cell, links[name][0])[1]))
      say(f"{name}: {found[name][-1]}")
  for name, cell in cells.items():
    one, all_streams = links[name]
    step_ms, of_one_ms = predicted(cell, one)[1:]
    plan_ms = predicted(cell, all_streams["rate_mbit"] * (1 + ACKNOWLEDGING))[2]
    mean, half = interval95([one[0] for one in found[name]])
    rows.append(
      [
        name,
        f"{step_ms:.0f}",
        f"{one:.1f}",
        "{rate_mbit:.1f} ({slowest_mbit:.1f} to {fastest_mbit:.1f})".format(**all_streams),
        f"{of_one_ms:.0f}",
        f"{plan_ms:.0f}",
        milliseconds(mean, half),
        ratio(mean, half, of_one_ms),
        ratio(mean, half, plan_ms),
        *(f"{100 * statistics.mean(one[i] for one in found[name]):.0f} %" for i in (1, 2, 3)),
      ]
    )
  return table(
    [
      "cell",
      "a step alone, ms",
      "rate of one stream, Mb/s",
      "of all at once",
      "predicted by one, ms",
      "predicted by all, ms",
      "measured, ms",
      "over the one",
      "over the other",
      "both processors in use, by the agents",
      "by all else",
      "rounds that lack an entry",
    ],
    rows,
  )
