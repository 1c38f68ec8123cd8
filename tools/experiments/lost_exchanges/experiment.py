"""What 10 % of lost exchanges cost pairs, by 100 seeds, and whether models that are further apart are the reason.

Reading: At equal steps, which take twice the time, lost exchanges cost modulo8 and fp32 less than the goal allows.
Agents that stand still end lower, not higher; why is not known. Models that are further apart pay most of it by the
means; no share is shown.
"""

import statistics
from collections import defaultdict

from counting import interval95, is_same, plus_minus
from lib import table
from simulated import data, data_name, pairs_of_digits, simulate, two_at_a_time

STEPS = 400
CONFIG = pairs_of_digits("lost_exchanges", STEPS)
FLAGS = ["--every", 0.5, "--latency", "10ms", "--rate", "100mbit", "--compute", "20ms"]
LOSSY = ["--lose-exchanges", 0.1]
STILL = ["--pause", "1@2+2", "--pause", "3@5+1.5", "--pause", "0@9+1"]
SETTINGS = {"modulo8": {}, "fp32": {"codec": "fp32"}}
FIRST = 31  # before it the seeds of thin_pairs
CASES = [
  ("modulo8", "10 % lost", LOSSY, 100),
  ("fp32", "10 % lost", LOSSY, 100),
  ("modulo8", "standing still", STILL, 30),
]
MARGIN = 2  # percent


def mean(values):
  return sum(values) / len(values)


def measured(case):
  """Test loss of the agents' own models and of their mean over the last quarter of the steps, exchanges in a step of
  an agent, and the standard deviation of the agents' steps over their mean as the first settles."""
  way, flags, seed = case
  summary, rows = simulate(
    CONFIG,
    4,
    [*FLAGS, *flags, "--seed", seed],
    agent__data__path=data(),
    **{f"swarm__exchange__{key}": value for key, value in SETTINGS[way].items()},
  )
  late = [row for row in rows if 0.75 * STEPS <= int(row["step"]) <= STEPS]
  steps = defaultdict(list)
  for row in rows:
    if row["series"] == "swarm" and row["agent"] != "":
      steps[float(row["virtual_s"])].append(int(row["step"]))
  ends = next((steps[at] for at in sorted(steps) if max(steps[at]) >= STEPS), steps[max(steps)])
  return {
    "own": mean([float(row["loss"]) for row in late if row["series"] == "swarm" and row["agent"] != ""]),
    "mean": mean([float(row["loss"]) for row in late if row["series"] == "mean"]),
    "uneven": 100 * statistics.pstdev(ends) / mean(ends),
    "a_step": mean([pairs["a_step"] for pairs in summary["pairs"]]),
  }


def row(way, what, clean, other):
  def more(key):
    return [100 * (one[key] / base[key] - 1) for one, base in zip(other, clean)]

  def both(key, digits):
    return " / ".join(f"{mean([one[key] for one in runs]):.{digits}f}" for runs in (clean, other))

  verdict = "yes" if len(clean) > 1 and is_same(more("own"), MARGIN) else "no"
  return [
    way,
    what,
    str(len(clean)),
    both("own", 4),
    plus_minus(*interval95(more("own"))),
    verdict,
    plus_minus(*interval95(more("mean"))),
    both("a_step", 2),
    both("uneven", 1) + " %",
  ]


TABLES = [
  ("loss", ["way", "with"]),
]


def run(repeat=1, quick=False, say=print):
  rows, clean = [], {}
  for way, what, flags, count in CASES:
    seeds = range(FIRST, FIRST + (2 if quick else count * repeat))
    new = [(way, seed) for seed in seeds if (way, seed) not in clean]
    clean.update(zip(new, two_at_a_time(measured, [(way, [], seed) for way, seed in new])))
    other = two_at_a_time(measured, [(way, flags, seed) for seed in seeds])
    rows.append(row(way, what, [clean[way, seed] for seed in seeds], other))
    say(f"{rows[-1]}")
  return (
    f"{data_name()}, data alike, {STEPS} steps, rng seeds from {FIRST} on, virtual time. Without / with: "
    "as the second column says. ±: 95 % interval, paired by seed.\n\n"
    + table(
      [
        "way",
        "with",
        "seeds",
        "own loss, without / with",
        "more of it",
        f"within {MARGIN} %",
        "more of the mean model's",
        "exchanges a step",
        "steps unlike",
      ],
      rows,
    )
  )
