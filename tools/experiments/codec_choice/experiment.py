"""Loss over bytes, steps and seconds: each codec of updates, params, and all-reduce and PowerSGD beside them.

Reading: On fast links and against all-reduce the best codecs win. On the thinnest link PowerSGD at a low rank is
faster, and in between the two are level. Pairs reach the goal on all three links only without fragments and low
ranks.
"""

import math
import statistics

import curves
from counting import interval95, value_at
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: codec_choice
  model: {kind: mlp, hidden: [350]}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  batch: 16
  weight: equal
  exchange: {kind: group, overlap: off, codec: fp32, update: {slices: 9}}
agent:
  data: {sharding: labels}
  threads: 1
  checkpoint: {every: 60s}
"""
AGENTS, PARAMS, STEPS = 4, 278_288, 200
TIMED = (15, 44)  # steps between which a step's time is taken; the run ends one later
GOAL = 0.35  # test loss
TRIAL, SEEDS = 101, (1, 2, 3, 4, 5)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
HOME = "10mbit"
LINKS = {"1gbit": (1e9, "2s"), HOME: (1e7, "5s"), "1mbit": (1e6, "60s")}  # bits a second, deadline_max
BASELINES = ("allreduce", "allreduce-buckets", "powersgd-1", "powersgd-2", "powersgd-4")
SAME_STEPS = {"allreduce-buckets": "allreduce"}  # whose steps differ in time alone


class Way:
  """`bits`: of an element, both ways, roughly: it only says how often to look."""

  def __init__(self, bits, first_rate=0.3, baseline="", **settings):
    self.bits, self.first_rate, self.baseline, self.settings = bits, first_rate, baseline, settings

  def look_every(self, steps, link):
    return steps * (0.06 + 0.75 * PARAMS * self.bits / LINKS[link][0])


def updates(codec, bits, **settings):
  return Way(bits, swarm__exchange__source="gradients", swarm__exchange__update__codec=codec, **settings)


WAYS = {
  **{
    name: updates(name, bits)
    for name, bits in [
      ("fp32", 64),
      ("bf16", 32),
      ("int8", 16),
      ("int4", 8.5),
      ("sign", 2),
      ("sign_ef", 9),
      ("ternary", 10),
      ("topk", 1.2),
      ("topk_bf16", 0.8),
      ("topk_int8", 0.5),
      ("sketch", 3),
    ]
  },
  "dgc (momentum .9)": updates("dgc", 1.2, first_rate=0.03),
  "sketch, momentum .9": updates("sketch", 3, first_rate=0.03, swarm__optimizer__momentum=0.9),
  "topk_int8, density 3 %": updates("topk_int8", 1.5, swarm__exchange__update__density=0.03),
  "sketch, one table": updates("sketch", 3, swarm__exchange__update__slices=1),
  "params, group, bf16": Way(32, swarm__exchange__codec="bf16", swarm__exchange__block=23552),
  "params, pairs, modulo8": Way(
    16, swarm__exchange__kind="pairwise", swarm__exchange__codec="modulo8", swarm__exchange__update__slices=0
  ),
  **{name: Way(0, baseline=name) for name in BASELINES},
  "powersgd-1, momentum .9": Way(0, first_rate=0.03, baseline="powersgd-1", swarm__optimizer__momentum=0.9),
}


def played(way, rate, seed, link, steps, every, seconds=1_000_000):
  """Rows of one run: the mean of the agents' models, or the baseline. Of `seconds` at most."""
  flags = ["--latency", "10ms", "--rate", link, "--compute", "20ms", "--steps", steps, "--seed", seed]
  if way.baseline:  # computed by the step; the swarm beside it ends at once
    flags += ["--seconds", 0.01, "--baseline", way.baseline]
  else:
    flags += ["--seconds", seconds, "--every", f"{every:.3f}"]
  _, rows = simulate(
    CONFIG,
    AGENTS,
    flags,
    agent__data__path=data(),
    swarm__optimizer__learning_rate=rate,
    swarm__exchange__deadline_min="20ms",
    swarm__exchange__deadline_max=LINKS[link][1],
    **way.settings,
  )
  return [row for row in rows if row["series"] == (way.baseline or "mean")]


def curve(case):
  name, rate, seed = case
  way = WAYS[SAME_STEPS.get(name, name)]
  rows = curves.read(played(way, rate, seed, HOME, STEPS, way.look_every(STEPS / 24, HOME)))
  return [row for row in rows if row.step < STEPS]  # then they settle, without steps


def pace(case):
  """Seconds and bytes of a step of an agent once all are under way, and seconds lost at the start."""
  name, rate, link = case
  way = WAYS[name]
  begin, end = (0, 2) if way.baseline else TIMED
  rows = played(way, rate, TRIAL, link, end if way.baseline else end + 1, way.look_every(7, link))
  return curves.pace(curves.read(rows), begin, end, AGENTS)


def late_loss(case):
  return curves.late_mean(curve(case), "loss")


def best_rate(name, say, late_loss=late_loss):
  """The best of rates a factor of 3 apart, with a worse one on either side."""
  losses = {}

  def loss(at):
    if at not in losses:
      losses[at] = late_loss((name, RATES[at], TRIAL))
      say(f"{name}, rate {RATES[at]}: {losses[at]:.4f}")
    return losses[at]

  at = RATES.index(WAYS[name].first_rate)
  while True:
    near = [i for i in (at - 1, at, at + 1) if 0 <= i < len(RATES)]
    best = min(near, key=loss)
    if best == at:
      return RATES[at]
    at = best


def shown(values, digits):
  """Mean and interval; how many of them are there if some are not."""
  there = [value for value in values if math.isfinite(value)]
  if len(there) < len(values):
    return f"in {len(there)} of {len(values)}"
  return "{:.{d}f} ± {:.{d}f}".format(*interval95(values), d=digits)


class Measured:
  """Curves by (way, seed), the trial's among them; paces by (way, link)."""

  def __init__(self, names, seeds, say):
    self.names, self.seeds = names, seeds
    self.rates = dict(zip(names, two_at_a_time(lambda name: best_rate(name, say), names)))
    timed = [(name, link) for name in names for link in LINKS]
    self.paces = dict(zip(timed, two_at_a_time(lambda case: pace((case[0], self.rates[case[0]], case[1])), timed)))
    say("paces are there")
    cases = [(name, seed) for seed in (TRIAL, *seeds) for name in names]
    self.curves = dict(zip(cases, two_at_a_time(lambda case: curve((case[0], self.rates[case[0]], case[1])), cases)))

  def points(self, name, link, seed):
    """(seconds, loss). A step takes what it does once all are under way; the start, when some take the replicas
    of others, is shown apart."""
    return [(row.step * self.paces[name, link].seconds, row.loss) for row in self.curves[name, seed]]

  def seconds_to_goal(self, name, link, seed):
    crossing = curves.crossing(self.points(name, link, seed), GOAL)
    return math.inf if crossing is None else crossing

  def fastest(self, link, wanted):
    """Of the ways that `wanted` names, by the trial seed."""
    return min((name for name in self.names if wanted(name)), key=lambda name: self.seconds_to_goal(name, link, TRIAL))


def is_rival(name):
  return bool(WAYS[name].baseline)


def by_steps(found):
  rows = []
  whole = found.paces["allreduce", HOME].bytes
  for name in found.names:
    late = [curves.late_mean(found.curves[name, seed], "loss") for seed in found.seeds]
    right = [100 * curves.late_mean(found.curves[name, seed], "accuracy") for seed in found.seeds]
    sent = found.paces[name, HOME].bytes
    rows.append(
      [
        name,
        f"{found.rates[name]:g}",
        f"{sent / 1e3:.1f} kB",
        f"{whole / sent:.1f}x",
        shown(late, 3),
        f"{statistics.mean(right):.1f} %",
      ]
    )
  return table(["way", "rate", "sent by an agent a step", "fewer than all-reduce", "late loss", "accuracy"], rows)


def by_time(found, link):
  rival = found.fastest(link, lambda name: name.startswith("powersgd"))
  budget = statistics.median(found.seconds_to_goal(rival, link, seed) for seed in found.seeds)
  rows = []
  for name in found.names:
    pace_here = found.paces[name, link]
    times = [found.seconds_to_goal(name, link, seed) for seed in found.seeds]
    then = [value_at(found.points(name, link, seed), budget) for seed in found.seeds]
    rows.append(
      [name, f"{1e3 * pace_here.seconds:.0f} ms", f"{max(0, pace_here.start_s):.1f} s", shown(times, 2), shown(then, 3)]
    )
  return f"\n{link}, 10 ms; then: {budget:.2f} s, when {rival} has reached the goal\n\n" + table(
    ["way", "a step", "lost at the start", f"s to loss {GOAL}", "loss then"], rows
  )


def claims(found):
  """Ours against PowerSGD, each the fastest by the trial seed; seeds paired."""
  rows = []
  for link in LINKS:
    ours = found.fastest(link, lambda name: not is_rival(name))
    for word in ("powersgd", "allreduce"):
      theirs = found.fastest(link, lambda name: name.startswith(word))
      ratios = [
        found.seconds_to_goal(ours, link, seed) / found.seconds_to_goal(theirs, link, seed) for seed in found.seeds
      ]
      if not all(math.isfinite(ratio) for ratio in ratios):
        rows.append([link, ours, theirs, "not reached by all", "no"])
        continue
      middle, half = interval95(ratios)
      held = "yes" if middle + half <= 1 else ("no" if middle - half > 1 else "not shown")
      rows.append([link, ours, theirs, f"{middle:.2f} ± {half:.2f}", held])
  return table(["link", "ours", "theirs", "time to the goal, of theirs", "not slower"], rows)


TABLES = [
  ("bytes and loss", ["way"]),
  ("1gbit", ["way"]),
  ("10mbit", ["way"]),
  ("1mbit", ["way"]),
  ("claims", ["link", "ours", "theirs"]),
]


def run(repeat=1, quick=False, say=print):
  names = ["topk", "sketch", "allreduce", "powersgd-1"] if quick else list(WAYS)
  found = Measured(names, SEEDS[:2] if quick else SEEDS, say)
  return (
    f"{AGENTS} agents by label, {data_name()}, mlp of 350 ({PARAMS:,} params), batch 16, 4 slices; density 1 % "
    f"where there is one. Rates by trial seed {TRIAL}, a worse one on either side; seeds {found.seeds}, ± a "
    f"95 % interval (Student's t over the seeds). Late: over the last quarter of {STEPS} steps.\n\n"
    + by_steps(found)
    + "".join(by_time(found, link) for link in LINKS)
    + "\nThe claims:\n\n"
    + claims(found)
  )
