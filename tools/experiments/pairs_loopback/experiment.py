"""Steps and exchanges of pairs a second on loopback: synchronous, overlapped, and by a program without turns.

STARLING_BEFORE: that program. It is `git worktree add FOLDER 5b67732^`, and in FOLDER `tools/build agent/starling`
(with this build's folders deps, venv and data, and its files libtorch and native.ini: it needs the same).

Reading: Synchronous pairs take more steps than pairs did without turns, and fewer exchanges. An agent goes on with
its steps once it has had the exchange that is due. With overlap both numbers rise.
"""

import os
import pathlib
import statistics
import time

import bench_swarm
import lib
from bench_swarm import EACH_EXCHANGE, Swarm, config_text
from counting import rate
from lib import busy_s, processor_s, table

AGENTS, PARAMS, WARM_UP, SECONDS = 4, 10_000_000, 3, 8
CODECS, OVERLAPS = ("fp32", "bf16", "modulo8"), ("off", "on")


def programs():
  before = os.environ.get("STARLING_BEFORE", "")
  return {"now": lib.STARLING, **({"before": pathlib.Path(before)} if before else {})}


def measured(name, codec, overlap):
  """A second and agent: steps, and exchanges that mixed, each counted at one end; part of the processors in use."""
  bench_swarm.STARLING = programs()[name]
  bench_swarm.EACH_EXCHANGE = EACH_EXCHANGE if name == "now" else []  # a key that the older program does not know
  with Swarm(config_text(PARAMS, codec, overlap=overlap), AGENTS) as swarm:
    swarm.wait_for_exchanges(WARM_UP, 60)  # the first rounds meet views of the swarm that still differ
    time.sleep(1.5)
    begin, busy, spent = time.time(), busy_s(), processor_s(swarm.agents)
    time.sleep(SECONDS)
    end, busy, spent = time.time(), busy_s() - busy, processor_s(swarm.agents) - spent
    time.sleep(1.2)  # a status line beyond the window, so that its last second is known
    logs = [agent.lines() for agent in swarm.agents]
    mixed = sum(
      x["event"] == "exchange" and begin <= x["t"] <= end and x["outcome"] in ("done", "late")
      for lines in logs
      for x in lines
    )
    there_is = (end - begin) * len(os.sched_getaffinity(0))
    return (
      statistics.mean(rate(lines, "round", begin, end) for lines in logs),
      mixed / 2 / AGENTS / (end - begin),
      (busy - spent) / there_is,
    )


def spread(values):
  return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


TABLES = [
  ("rate", ["codec", "overlap", "program"]),
]


def run(repeat=1, quick=False, say=print):
  cases = [
    (codec, overlap, name) for codec in (CODECS[:1] if quick else CODECS) for overlap in OVERLAPS for name in programs()
  ]
  found = {case: [] for case in cases}
  for _ in range(repeat):  # in turn: the machine's load is not the same all the time
    for codec, overlap, name in cases:
      found[codec, overlap, name].append(measured(name, codec, overlap))
      say(f"{codec}, overlap {overlap}, {name}: {found[codec, overlap, name][-1]}")
  rows = []
  for codec, overlap, name in cases:
    steps, exchanges, others = zip(*found[codec, overlap, name])
    ratios = ["", ""]
    if (codec, overlap, "before") in found and name == "now":
      then = list(zip(*found[codec, overlap, "before"]))
      ratios = [spread([a / b for a, b in zip(ours, theirs)]) for ours, theirs in zip((steps, exchanges), then)]
    rows.append(
      [codec, overlap, name, spread(steps), spread(exchanges), *ratios, f"{100 * statistics.mean(others):.0f} %"]
    )
  return (
    f"{AGENTS} agents x {PARAMS / 1e6:g} M params on loopback, no compute, {repeat} runs of {SECONDS} s: "
    "medians, ranges in brackets; a second and agent, each exchange counted at one end. Ratios: now to before, "
    "run by run.\n\n"
    + table(
      [
        "codec",
        "overlap",
        "program",
        "steps",
        "exchanges",
        "steps, ratio",
        "exchanges, ratio",
        "processors in use by all else",
      ],
      rows,
    )
  )
