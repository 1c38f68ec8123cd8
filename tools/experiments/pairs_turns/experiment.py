"""Time to accuracy of the worst agent: synchronous pairs, a group, overlapped pairs, all-reduce and local SGD; steps
that agents keep beside a slow one.

Reading: Pairs are ahead of a group for few agents, and level with all-reduce and local SGD. Lost frames and lost
exchanges cost more time than the goals allow. A slow agent costs the others 4 to 12 % of their steps, and what it
knows spreads slowly.
"""

import tempfile
from typing import NamedTuple

from arrival import GOALS, TESTED, first_tests, mean, ratio, said
from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: pairs_turns
  model: {kind: cnn, channels: 16}
  optimizer: {kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 0}
  batch: 64
  exchange: {kind: pairwise, codec: modulo8, share: [params, momentum], deadline_min: 20ms, deadline_max: 500ms}
agent:
  threads: 1
"""
LINK = ["--latency", "50ms", "--rate", "100mbit", "--compute", "40ms"]
TURNS, SHARES, GROUP = "by turns", "in shares", "group"
OF_GROUP = {"swarm__exchange__codec": "bf16", "swarm__exchange__block": 23552, "swarm__exchange__overlap": "off"}
EXCHANGES = {
  TURNS: {},
  SHARES: {"swarm__exchange__overlap": "on"},
  GROUP: {"swarm__exchange__kind": "group", **OF_GROUP},
}
FRAMES, WHOLE = ("--loss", 0.1), ("--lose-exchanges", 0.1)
EXCHANGES.update({f"by turns, {k} a step": {"swarm__exchange__exchanges_per_step": k} for k in (1, 2, 3)})
K1, K2, K3 = list(EXCHANGES)[-3:]


class Cell(NamedTuple):
  agents: int
  sharding: str
  seconds: int
  look: float  # seconds between two looks: each costs as much as several steps
  seeds: int
  exchanges: tuple
  every: int = 1  # steps a round
  lost: tuple = ()
  channels: int = 16  # 18,314 params; 40: 94,000


CELLS = [
  Cell(4, "iid", 10, 0.1, 5, (TURNS, SHARES)),
  Cell(4, "labels", 10, 0.1, 5, (TURNS, GROUP, K2)),
  Cell(3, "labels", 10, 0.1, 5, (TURNS, GROUP)),
  Cell(5, "labels", 12, 0.1, 5, (TURNS, GROUP)),
  Cell(4, "labels", 16, 0.1, 5, (TURNS,), lost=FRAMES),
  Cell(4, "labels", 16, 0.1, 5, (TURNS,), lost=WHOLE),
  Cell(16, "dirichlet", 20, 0.25, 5, (TURNS, GROUP)),
  Cell(4, "labels", 10, 0.1, 5, (TURNS, GROUP), channels=40),
  Cell(32, "dirichlet", 16, 0.5, 2, (TURNS,)),
  Cell(8, "labels", 14, 0.2, 5, (TURNS, GROUP, K1, K3)),
  Cell(4, "labels", 14, 0.2, 5, (TURNS, GROUP), every=4),
  Cell(4, "labels", 18, 0.2, 5, (TURNS, GROUP), every=8),
  Cell(2, "labels", 9, 0.1, 5, (TURNS, GROUP)),
  Cell(16, "dirichlet", 20, 0.25, 3, (K1, K3)),
]
RATE = "swarm__optimizer__learning_rate"
RATES = {4: 0.02, 8: 0.02}  # at more steps a round; else CONFIG's
BASELINES = [("allreduce", 1, 70), ("local-sgd", 2, 90), ("local-sgd", 4, 130), ("local-sgd", 8, 170)]  # steps
BASELINE_CHANNELS, BASELINE_SEEDS = (40, 16), 5
# agents, the slow one's factor, part of the steps that the others are to keep
SLOW = [(8, 4, 0.95), (4, 8, 0.9)]
# The last of four agents holds these digits alone, and is so many times slower.
ITS_DIGITS, ITS_FACTORS, ITS_SECONDS, ITS_SEEDS = (8, 9), (1, 8), (5, 10, 15), 5


def reached(rows, series):
  """When the worst agent of a series first reaches each goal, None where it does not."""
  worst = {}
  for row in rows:
    if row["series"] == series and (series != "swarm" or row["agent"] != ""):
      at = float(row["virtual_s"])
      worst[at] = min(worst.get(at, 1), float(row["accuracy"]))
  return [next((at for at in sorted(worst) if worst[at] >= goal), None) for goal in GOALS]


def of_swarm(cell, exchange, seed, folder, **others):
  """others: further settings, as simulate() takes them."""
  flags = ["--steps", 100000, "--every", cell.look, "--seconds", cell.seconds, "--seed", seed, *LINK, *cell.lost]
  rate = {RATE: RATES[cell.every]} if cell.every in RATES else {}
  summary, rows = simulate(
    CONFIG,
    cell.agents,
    flags,
    agent__data__path=folder,
    agent__data__sharding=cell.sharding,
    agent__data__alpha=0.1,
    swarm__local_steps=cell.every,
    swarm__model__channels=cell.channels,
    **{**rate, **EXCHANGES[exchange], **others},
  )
  swarm, pairs = summary["final"]["swarm"], [one for one in summary.get("pairs", []) if one]
  return {
    "times": reached(rows, "swarm"),
    "ms": 1e3 * cell.seconds / swarm["steps"],
    "kB": swarm["bytes"] / swarm["steps"] / cell.agents / 1e3,
    "a step": sum(one["a_step"] for one in pairs) / len(pairs) if pairs else None,
  }


def of_baseline(name, every, steps, channels, seed, folder, **others):
  flags = ["--steps", steps, "--every", 0.04 * every, "--seconds", 0.1, "--seed", seed, *LINK, "--baseline", name]
  _, rows = simulate(
    CONFIG,
    4,
    flags,
    agent__data__path=folder,
    agent__data__sharding="labels",
    swarm__local_steps=every,
    swarm__model__channels=channels,
    **others,
  )
  return reached(rows, name)


def learned_of(factor, seed, folder):
  """Mean accuracy over four agents by label, the last `factor` times slower, at ITS_SECONDS."""
  speeds = ",".join(["1"] * 3 + [str(factor)])
  _, rows = simulate(
    CONFIG,
    4,
    ["--steps", 100000, "--every", 1, "--seconds", ITS_SECONDS[-1], "--seed", seed, "--speeds", speeds, *LINK],
    agent__data__path=folder,
    agent__data__sharding="labels",
  )
  at = [
    [
      float(row["accuracy"])
      for row in rows
      if row["series"] == "swarm" and row["agent"] != "" and abs(float(row["virtual_s"]) - seconds) < 0.5
    ]
    for seconds in ITS_SECONDS
  ]
  return [100 * mean(ones) for ones in at]


def steps_of_the_fast(agents, slow, seed):
  """Mean steps of all but the last agent in 20 s; slow: the last one's factor, None: it is not there."""
  speeds = ",".join(["1"] * (agents - 1) + ([str(slow)] if slow else []))
  _, rows = simulate(
    CONFIG,
    agents if slow else agents - 1,
    ["--steps", 100000, "--every", 20, "--seconds", 20, "--seed", seed, "--speeds", speeds, *LINK],
    swarm__model__kind="quadratic",
    swarm__model__dimension=18314,
  )
  last = {int(row["agent"]): int(row["step"]) for row in rows if row["series"] == "swarm" and row["agent"] != ""}
  return sum(last[a] for a in range(agents - 1)) / (agents - 1)


def cell_rows(cell, folder, count):
  """One row an exchange; the ratios are of the first one's times to this one's."""
  exchanges = cell.exchanges
  cases = [(exchange, seed) for exchange in exchanges for seed in range(1, count + 1)]
  found = two_at_a_time(lambda case: of_swarm(cell, *case, folder), cases)
  rows, first = [], None
  for exchange in exchanges:
    runs = [one for case, one in zip(cases, found) if case[0] == exchange]
    times = [[one["times"][goal] for one in runs] for goal in range(len(GOALS))]
    ratios = [ratio(*pair) for pair in zip(first, times)] if first else ["", ""]
    first = first or times
    made = "" if runs[0]["a step"] is None else f"{mean([one['a step'] for one in runs]):.2f}"
    rows.append(
      [
        cell.agents,
        cell.sharding,
        cell.channels,
        cell.every,
        " ".join(map(str, cell.lost)),
        count,
        exchange,
        *map(said, times),
        *ratios,
        f"{mean([one['ms'] for one in runs]):.0f}",
        f"{mean([one['kB'] for one in runs]):.0f}",
        made,
      ]
    )
  return rows


def baseline_row(name, every, steps, channels, folder, count):
  times = two_at_a_time(lambda seed: of_baseline(name, every, steps, channels, seed, folder), range(1, count + 1))
  return [name, channels, every, count, *(said([one[goal] for one in times]) for goal in range(len(GOALS)))]


def slow_row(agents, factor, part, count):
  cases = [(slow, seed) for slow in (None, factor) for seed in range(1, count + 1)]
  found = two_at_a_time(lambda case: steps_of_the_fast(agents, *case), cases)
  kept = [100 * with_it / without for without, with_it in zip(found[:count], found[count:])]
  shown = "{:.1f} ± {:.1f} %".format(*interval95(kept)) if count > 1 else f"{kept[0]:.1f} %"
  return [agents, factor, shown, f"{100 * part:.0f} %"]


def digits_rows(scratch, count):
  """Two rows a factor: of the digits that the slow one alone holds, and of the others'."""
  rows = []
  if data() == "generated":  # by the program: its tests cannot be chosen
    return rows
  for kind, digits in (("its own", ITS_DIGITS), ("the others'", set(range(10)) - set(ITS_DIGITS))):
    folder = first_tests(data(), f"{scratch}/{min(digits)}", TESTED, digits)
    for factor in ITS_FACTORS:
      found = two_at_a_time(lambda seed: learned_of(factor, seed, folder), range(1, count + 1))
      shown = [interval95([one[i] for one in found]) for i in range(len(ITS_SECONDS))]
      rows.append([factor, kind, count, *("{:.1f} ± {:.1f} %".format(*one) for one in shown)])
  return rows


TABLES = [
  ("time", ["agents", "data", "channels", "H", "lost", "exchange"]),
  ("baselines", ["baseline", "channels", "H"]),
  ("beside a slow one", ["agents", "the slow one's factor"]),
  ("digits of a slow one", ["its factor", "tested digits"]),
]


def run(repeat=1, quick=False, say=print):
  def told(row):
    say(f"{row}")
    return row

  with tempfile.TemporaryDirectory(prefix="starling-digits-") as scratch:
    folder = first_tests(data(), f"{scratch}/all", TESTED)
    rows = [
      told(row)
      for cell in (CELLS[:1] if quick else CELLS)
      for row in cell_rows(cell, folder, 1 if quick else cell.seeds * repeat)
    ]
    baselines = (
      []
      if quick
      else [
        told(baseline_row(*one, channels, folder, BASELINE_SEEDS * repeat))
        for channels in BASELINE_CHANNELS
        for one in BASELINES
      ]
    )
    slow = [told(slow_row(*one, 1 if quick else 5 * repeat)) for one in SLOW]
    digits = [] if quick else [told(row) for row in digits_rows(scratch, ITS_SEEDS * repeat)]
  return text_of(rows, baselines, slow, digits)


def text_of(rows, baselines, slow, digits):
  return (
    f"{data_name()}, {TESTED} tested, virtual time, worst agent; ratio: time by turns to this one's. 16 "
    "channels are 18,314 params, 40 are 94,000.\n\n"
    + table(
      [
        "agents",
        "data",
        "channels",
        "H",
        "lost",
        "runs",
        "exchange",
        "93 %",
        "95 %",
        "ratio at 93 %",
        "ratio at 95 %",
        "ms a step",
        "kB a step",
        "exchanges a step",
      ],
      rows,
    )
    + "\n\n4 agents by label, all with one model:\n\n"
    + table(["baseline", "channels", "H", "runs", "93 %", "95 %"], baselines)
    + "\n\nQuadratics of 18,314 params: steps that the others keep beside a slow one.\n\n"
    + table(["agents", "the slow one's factor", "kept", "goal"], slow)
    + "\n\n4 agents by label, the last of which is slow: mean accuracy over all agents.\n\n"
    + table(["its factor", "tested digits", "runs", *(f"at {seconds} s" for seconds in ITS_SECONDS)], digits)
  )
