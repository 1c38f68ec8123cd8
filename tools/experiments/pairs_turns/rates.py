#!/usr/bin/env python3
"""What the tables of pairs_turns left open, as its expected.md says: the best rate of each side, more seeds for wide
intervals, and settings tried against what was missed. Prints tables.

    tools/experiments/pairs_turns/rates.py iid|four|whole|frames|five|sixteen|baselines ... [--starling PROGRAM]
"""

import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "lib")]
import experiment as turns  # noqa: E402
import lib  # noqa: E402
import order  # noqa: E402
import simulated  # noqa: E402
from arrival import GOALS, TESTED, first_tests, mean, ratio, said  # noqa: E402
from experiment import FRAMES, GROUP, RATE, SHARES, TURNS, WHOLE, Cell  # noqa: E402
from lib import table  # noqa: E402
from simulated import data, data_name, two_at_a_time  # noqa: E402

RATES = (0.03, 0.05, 0.08)
TRIAL = (101, 102)  # rng seeds that choose a rate and judge nothing
AFTER = 5  # those before were seen: they are in the tables above
BASELINES = {
  f"{name}, H = {every}": (name, every, steps)
  for name, every, steps in [("allreduce", 1, 85), ("local-sgd", 2, 110), ("local-sgd", 4, 156), ("local-sgd", 8, 204)]
}
CELLS = {
  "iid": Cell(4, "iid", 8, 0.1, 8, (TURNS, SHARES)),
  "four": Cell(4, "labels", 12, 0.2, 8, (TURNS, GROUP)),
  "baselines": Cell(4, "labels", 12, 0.2, 8, tuple(BASELINES)),
  "five": Cell(5, "labels", 16, 0.2, 8, (TURNS, GROUP)),
  "sixteen": Cell(16, "dirichlet", 20, 0.25, 8, (TURNS, GROUP)),
}
LOST = {
  "frames": Cell(4, "labels", 18, 0.2, 2, (TURNS,), lost=FRAMES),
  "whole": Cell(4, "labels", 18, 0.2, 2, (TURNS,), lost=WHOLE),
}
TRIES = {
  "as it is": {},
  "rate .05": {RATE: 0.05},
  "momentum .8": {"swarm__optimizer__momentum": 0.8},
  "two exchanges a step": {"swarm__exchange__exchanges_per_step": 2},
  "deadline at most 250 ms": {"swarm__exchange__deadline_max": "250ms"},
}


def say(line):
  print(line, file=sys.stderr, flush=True)


def times_of(cell, side, seed, folder, **others):
  if side in BASELINES:
    found = turns.of_baseline(*BASELINES[side], cell.channels, seed, folder, **others)
  else:
    found = turns.of_swarm(cell, side, seed, folder, **others)["times"]
  say(f"{side}, seed {seed}, {others}: {found}")
  return found


def late_as_end(times, seconds):
  """Their mean, where who does not arrive counts as if it did at the end."""
  return mean([seconds if time is None else time for time in times])


def chosen(cell, side, folder):
  """The rate whose mean time to the first goal is the shortest, and these means."""
  short = cell._replace(seconds=0.75 * cell.seconds)
  cases = [(rate, seed) for rate in RATES for seed in TRIAL]
  times = two_at_a_time(lambda case: times_of(short, side, case[1], folder, **{RATE: case[0]})[0], cases)
  found = {
    rate: late_as_end([time for (tried, _), time in zip(cases, times) if tried == rate], short.seconds)
    for rate in RATES
  }
  return min(found, key=found.get), found


def contest(cell, folder):
  rows, first = [], None
  for side in cell.exchanges:
    best, trial = chosen(cell, side, folder)
    seeds = range(AFTER + 1, AFTER + 1 + cell.seeds)
    runs = two_at_a_time(lambda seed: times_of(cell, side, seed, folder, **{RATE: best}), seeds)
    times = [[one[goal] for one in runs] for goal in range(len(GOALS))]
    ratios = [ratio(*pair) for pair in zip(first, times)] if first else ["", ""]
    first = first or times
    rows.append(
      [side, ", ".join(f"{trial[rate]:.1f}" for rate in RATES), f"{best:g}", len(seeds), *map(said, times), *ratios]
    )
    say(rows[-1])
  print(f"{cell.agents} agents, {cell.sharding}; rates by seeds {TRIAL}, judged by {seeds[0]} to {seeds[-1]}.\n")
  late = f"who does not arrive: {0.75 * cell.seconds:g} s"
  print(
    table(
      [
        "side",
        f"s to 93 % at rates {', '.join(map(str, RATES))} ({late})",
        "best",
        "runs",
        "93 %",
        "95 %",
        "ratio at 93 %",
        "at 95 %",
      ],
      rows,
    ),
    flush=True,
  )


def tries(cell, folder):
  rows = []
  for name, others in TRIES.items():
    found = two_at_a_time(lambda seed: turns.of_swarm(cell, TURNS, seed, folder, **others), TRIAL)
    times = [[one["times"][goal] for one in found] for goal in range(len(GOALS))]
    shown = [", ".join("never" if time is None else f"{time:.1f} s" for time in ones) for ones in times]
    rows.append(
      [name, *shown, f"{mean([one['ms'] for one in found]):.0f}", f"{mean([one['a step'] for one in found]):.2f}"]
    )
    say(rows[-1])
  print(f"{cell.agents} agents, {cell.sharding}, {' '.join(map(str, cell.lost))}; seeds {TRIAL}, {cell.seconds} s.\n")
  print(table(["by turns", "93 %", "95 %", "ms a step", "exchanges a step"], rows), flush=True)


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="+", choices=[*CELLS, *LOST])
  parser.add_argument("--starling", help="another build of the program")
  args = parser.parse_args()
  if args.starling:
    simulated.STARLING = pathlib.Path(args.starling)
  with tempfile.TemporaryDirectory(prefix="starling-digits-") as scratch:
    folder = first_tests(data(), f"{scratch}/all", TESTED)
    print(f"{data_name()}; program {order.program_commit(lib.ROOT)}\n", flush=True)
    for name in args.names:
      if name in LOST:
        tries(LOST[name], folder)
      else:
        contest(CELLS[name], folder)


main()
