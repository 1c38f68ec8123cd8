#!/usr/bin/env python3
"""Three questions that codec_choice's tables left open, as its expected.md says: prints their tables.

    tools/experiments/codec_choice/contest.py speed|momentum|cells [STARLING [WAY...]]

WAY: of the cells only these.
"""

import math
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "lib")]
import lib  # noqa: E402

if len(sys.argv) > 2:
  lib.STARLING = pathlib.Path(sys.argv[2])
import curves  # noqa: E402
import experiment as choice  # noqa: E402
import order  # noqa: E402
from counting import interval95  # noqa: E402
from lib import table  # noqa: E402
from simulated import two_at_a_time  # noqa: E402

RATE = 0.3
MINUTES = 30  # no seed begins later
SEEDS = range(1, 17)
OURS = {
  "topk_int8, density 3 %": {},
  "topk_int8, density 2 %": {"density": 0.02},
  "topk_int8, density 5 %": {"density": 0.05},
  "topk_int8, density 3 %, reply 1": {"density": 0.03, "reply": 1},
  "topk_int8, density 5 %, reply 1": {"density": 0.05, "reply": 1},
}
RANKS = ("powersgd-1", "powersgd-2", "powersgd-4")
MASKED = "sketch, update.momentum .9"
# Whose steps do not depend on the link where nothing comes late; and whose do.
REPLICAS = ("topk_int8, density 5 %, reply 1", MASKED)
MIXED = (
  "params, pairs, modulo8",
  "params, pairs, modulo8, momentum .9 travels",
  "params, neighborhood, bf16",
  "params, pairs, modulo4, fragments 4",
)
KNOWN = {
  REPLICAS[0]: 0.3,
  MASKED: 0.03,
  MIXED[0]: 0.3,
  MIXED[2]: 0.3,
}  # their best rates, by the runs of before
LOOKS = 96  # of a run on its link, were its steps as long as `Way.bits` says; too few where agents go on alone
SHORT = {("params, neighborhood, bf16", "1mbit"): {"every": 0.2, "seconds": 30}}  # 200 steps take some 17 s


def pairs(bits, **settings):
  return choice.Way(
    bits,
    first_rate=0.1,
    swarm__exchange__kind="pairwise",
    swarm__exchange__update__slices=0,
    **{"swarm__exchange__codec": "modulo8", **settings},
  )


def say(text):
  print(f"  {text}", file=sys.stderr, flush=True)


def add_ways():
  for name, update in OURS.items():
    settings = {f"swarm__exchange__update__{key}": value for key, value in update.items()}
    if settings:
      choice.WAYS[name] = choice.updates("topk_int8", 1.5, **settings)
  choice.WAYS[MASKED] = choice.updates("sketch", 3, first_rate=0.03, swarm__exchange__update__momentum=0.9)
  choice.WAYS.update(
    zip(
      MIXED,
      [
        pairs(16),
        pairs(32, swarm__optimizer__momentum=0.9, swarm__exchange__share="[params, momentum]"),
        choice.Way(
          32,
          first_rate=0.1,
          swarm__exchange__kind="neighborhood",
          swarm__exchange__codec="bf16",
          swarm__exchange__update__slices=0,
          swarm__topology__kind="ring",
        ),
        pairs(2, swarm__exchange__codec="modulo4", swarm__exchange__block=2048, swarm__exchange__fragments=4),
      ],
    )
  )


def seconds_to_goal(name, seed, pace):
  points = [(row.step * pace.seconds, row.loss) for row in choice.curve((name, RATE, seed))]
  crossing = curves.crossing(points, choice.GOAL)
  return float("inf") if crossing is None else crossing


def speed():
  began = time.monotonic()
  names = [*OURS, *RANKS]
  paces = dict(zip(names, two_at_a_time(lambda name: choice.pace((name, RATE, choice.HOME)), names)))
  trial = dict(zip(names, two_at_a_time(lambda name: seconds_to_goal(name, choice.TRIAL, paces[name]), names)))
  for name in names:
    say(f"{name}: {1e3 * paces[name].seconds:.1f} ms, {paces[name].bytes / 1e3:.1f} kB, trial {trial[name]:.2f} s")
  first, second = sorted(OURS, key=trial.get)[:2]
  rank = min(RANKS, key=trial.get)
  times = {name: [] for name in (first, second, rank)}
  for seed in SEEDS:
    if time.monotonic() - began > 60 * MINUTES:
      break
    for name, found in zip(times, two_at_a_time(lambda name: seconds_to_goal(name, seed, paces[name]), times)):
      times[name].append(found)
    say(f"seed {seed}: " + ", ".join(f"{name} {found[-1]:.2f}" for name, found in times.items()))
  rows = []
  for name in names:
    rows.append(
      [
        name,
        f"{1e3 * paces[name].seconds:.0f} ms",
        f"{paces[name].bytes / 1e3:.1f} kB",
        f"{trial[name]:.2f}",
        choice.shown(times[name], 2) if name in times else "",
        choice.shown([one / other for one, other in zip(times[name], times[rank])], 2)
        if name in (first, second)
        else "",
      ]
    )
  count = len(times[rank])
  print(f"10 ms, 10 Mb/s, rate {RATE}, seeds 1 to {count}; ± a 95 % interval, ratios paired by seed.\n")
  print(
    table(
      [
        "way",
        "a step",
        "sent by an agent a step",
        f"s to loss {choice.GOAL}, trial",
        "by the seeds",
        f"of {rank}'s time",
      ],
      rows,
    )
  )


def momentum():
  names = ["sketch", MASKED]
  rates = {name: choice.best_rate(name, say) for name in names}
  seeds = SEEDS[:5]
  cases = [(name, rates[name], seed) for seed in seeds for name in names]
  found = dict(zip(cases, two_at_a_time(choice.curve, cases)))
  late = {name: [curves.late_mean(found[name, rates[name], seed], "loss") for seed in seeds] for name in names}
  rows = []
  for name in names:
    right = [100 * curves.late_mean(found[name, rates[name], seed], "accuracy") for seed in seeds]
    more = [one - other for one, other in zip(late[name], late["sketch"])]
    rows.append(
      [
        name,
        f"{rates[name]:g}",
        choice.shown(late[name], 3),
        f"{statistics.mean(right):.1f} %",
        "" if name == "sketch" else "{:+.3f} ± {:.3f}".format(*interval95(more)),
      ]
    )
  print(f"10 ms, 10 Mb/s, {choice.STEPS} steps, seeds 1 to 5, ± a 95 % interval, differences paired by seed.\n")
  print(table(["way", "rate", "late loss", "accuracy", "more than sketch"], rows))


def closely(case, link=choice.HOME):
  """Rows of a run on this link, with more looks than choice.curve()'s: steps come unevenly."""
  name, rate, seed = case
  way = choice.WAYS[name]
  looks = SHORT.get((name, link)) or {"every": way.look_every(choice.STEPS / LOOKS, link)}
  rows = curves.read(choice.played(way, rate, seed, link, choice.STEPS, **looks))
  return [row for row in rows if row.step < choice.STEPS]  # then they settle


def late_loss(rows):
  """Of the last three looks where agents that go on alone take the last quarter of the steps within fewer."""
  try:
    return curves.late_mean(rows, "loss")
  except curves.TooFew:
    return statistics.mean(row.loss for row in rows[-3:])


def on_link(case):
  """The whole run on its link: seconds to the goal, kB an agent sends a step, seconds of a step, late loss."""
  name, rate, link, seed = case
  rows = closely((name, rate, seed), link)
  crossing = curves.crossing([(row.time_s, row.loss) for row in rows], choice.GOAL)
  last = rows[-1]
  return (
    math.inf if crossing is None else crossing,
    last.bytes / last.step / choice.AGENTS / 1e3,
    last.time_s / last.step,
    late_loss(rows),
  )


def cell(sent, seconds, crossings):
  return f"{sent:.1f} kB, {1e3 * seconds:.0f} ms, {choice.shown(crossings, 2)}"


def cells_of_replica(name, rate):
  paces = two_at_a_time(choice.pace, [(name, rate, link) for link in choice.LINKS])
  found = two_at_a_time(choice.curve, [(name, rate, seed) for seed in choice.SEEDS])
  row = [name, f"{rate:g}", choice.shown([curves.late_mean(one, "loss") for one in found], 3)]
  for pace in paces:
    crossings = [curves.crossing([(at.step * pace.seconds, at.loss) for at in one], choice.GOAL) for one in found]
    row.append(cell(pace.bytes / 1e3, pace.seconds, [math.inf if at is None else at for at in crossings]))
  return row


def cells_of_mixed(name, rate):
  cases = [(name, rate, link, seed) for link in choice.LINKS for seed in choice.SEEDS]
  found = dict(zip(cases, two_at_a_time(on_link, cases)))
  row, late = [], []
  for link in choice.LINKS:
    crossings, sent, steps, losses = zip(*(found[name, rate, link, seed] for seed in choice.SEEDS))
    late.append(f"{statistics.mean(losses):.3f}")
    row.append(cell(statistics.mean(sent), statistics.mean(steps), crossings))
  return [name, f"{rate:g}", " / ".join(late), *row]


def cells():
  began, rows = time.monotonic(), []
  for name in sys.argv[3:] or (*REPLICAS, *MIXED[2:], *MIXED[:2]):  # the slowest last
    rate = KNOWN.get(name) or choice.best_rate(
      name, say, (lambda case: late_loss(closely(case))) if name in MIXED else choice.late_loss
    )
    rows.append((cells_of_mixed if name in MIXED else cells_of_replica)(name, rate))
    say(f"after {time.monotonic() - began:.0f} s: {rows[-1]}")
  print(
    f"{choice.STEPS} steps, seeds {choice.SEEDS}, ± a 95 % interval. Of each link: kB sent by an agent a step, a "
    f"step, s to loss {choice.GOAL}. Params: each run on its link, its start included; late loss on the three "
    "links.\n"
  )
  print(table(["way", "rate", "late loss", *(f"{link}, 10 ms" for link in choice.LINKS)], rows))


add_ways()
print(f"program {order.program_commit(lib.ROOT)}\n", flush=True)
{"speed": speed, "momentum": momentum, "cells": cells}[sys.argv[1]]()
