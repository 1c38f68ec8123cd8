"""Loss after as many steps: pairs that send less, and what 10 % of lost exchanges cost each of them.

Reading: Where data are alike pairs that send less learn as much in as many steps, with fragments a little more. By
label fragments fail. Low-rank exchanges learned there, but they were removed with their codec.
"""

from counting import interval95, is_same, plus_minus
from lib import table
from simulated import data, data_name, pairs_of_digits, simulate, two_at_a_time

STEPS = 400
CONFIG = pairs_of_digits("thin_pairs", STEPS)
FLAGS = ["--every", 0.5, "--latency", "10ms", "--rate", "100mbit", "--compute", "20ms"]
WAYS = {
  "modulo8": {},
  "modulo4, fragments 4": {"codec": "modulo4", "fragments": 4},
  "bf16": {"codec": "bf16"},
  "modulo4": {"codec": "modulo4"},
  "modulo8, fragments 4": {"fragments": 4},
  "fp32": {"codec": "fp32"},
  "fp16": {"codec": "fp16"},
}
LOST = 0.1  # of the exchanges, with all their messages
SEEDS = 30
MARGIN = 2  # percent


def measured(case):
  """Mean test loss of the agents over the last quarter of the steps; bytes sent a step of an agent; the part of the
  exchanges that were not whole, and of the blocks that the codec left out."""
  way, lost, seed = case
  summary, rows = simulate(
    CONFIG,
    4,
    [*FLAGS, "--lose-exchanges", lost, "--seed", seed],
    agent__data__path=data(),
    **{f"swarm__exchange__{key}": value for key, value in WAYS[way].items()},
  )
  losses = [
    float(row["loss"])
    for row in rows
    if row["series"] == "swarm" and row["agent"] != "" and 0.75 * STEPS <= int(row["step"]) <= STEPS
  ]
  swarm, exchanges, blocks = summary["final"]["swarm"], summary["exchanges"], summary["blocks"]
  ended = exchanges["done"] + exchanges["late"] + exchanges["failed"]
  return (
    sum(losses) / len(losses),
    swarm["bytes"] / swarm["steps"] / 4,
    (ended - exchanges["done"]) / ended,
    blocks["refused"] / blocks["due"],
  )


def mean(values):
  return sum(values) / len(values)


def both(values):
  return " / ".join(f"{100 * mean(each):.1f}" for each in values) + " %"


def row(way, clean, lossy, base):
  """`base`: what modulo8 has by the same seeds, nothing lost."""
  against = [100 * (one[0] / other[0] - 1) for one, other in zip(clean, base)]
  cost = [100 * (one[0] / other[0] - 1) for one, other in zip(lossy, clean)]
  verdict = "yes" if len(cost) > 1 and is_same(cost, MARGIN) else "no"
  return [
    way,
    f"{mean([one[1] for one in clean]) / 1e3:.1f} kB",
    f"{mean([one[0] for one in clean]):.4f}",
    "" if way == "modulo8" else plus_minus(*interval95(against)),
    plus_minus(*interval95(cost)),
    verdict,
    both([[one[2] for one in runs] for runs in (clean, lossy)]),
    both([[one[3] for one in runs] for runs in (clean, lossy)]),
  ]


TABLES = [
  ("loss", ["way"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  rows, base = [], None
  for way in WAYS:
    cases = [(way, lost, seed) for lost in (0, LOST) for seed in seeds]
    found = two_at_a_time(measured, cases)
    clean, lossy = found[: len(seeds)], found[len(seeds) :]
    base = base or clean
    rows.append(row(way, clean, lossy, base))
    say(f"{rows[-1]}")
  return (
    f"{data_name()}, data alike, {STEPS} steps, rng seeds {seeds[0]} to {seeds[-1]}, virtual time. Sent: a "
    f"step of an agent, nothing lost. Not whole: of the exchanges; left out: of the blocks, by the codec; "
    f"without / with {100 * LOST:g} % of the exchanges lost. ±: 95 % interval, paired by seed.\n\n"
    + table(
      [
        "way",
        "sent",
        "loss",
        "against modulo8",
        f"{100 * LOST:g} % lost against none",
        f"within {MARGIN} %",
        "not whole",
        "left out",
      ],
      rows,
    )
  )
