"""Seconds to a loss on three links: merged top-k, all-reduce in buckets, PowerSGD, top-k of each layer.

Reading: Merged top-k is ahead of all-reduce and PowerSGD on faster links. Merging itself and sending early gain
nothing that eight seeds show. On the thinnest link it is a loss: two runs of eight never arrive.
"""

import collections
import functools
import math
import statistics

import curves
from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: s2_rivals
  model: {kind: mlp, hidden: [300, 200, 100]}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  batch: 16
  weight: equal
  exchange: {kind: group, source: gradients, overlap: off, codec: fp32, deadline_min: 20ms, deadline_max: 5s}
agent:
  data: {sharding: iid}
  threads: 1
  checkpoint: {every: 60s}
"""
AGENTS, PARAMS, STEP_S = 8, 316_810, 0.02
FORWARD_S = STEP_S / 3  # as simulate has it
GOAL, LOOK = 0.30, 5  # test loss; steps between two looks, roughly
TRIALS, SEEDS = (101, 102), (1, 2, 3, 4, 5, 6, 7, 8)
RATES, FIRST_RATE = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8, 1.1, 1.6), 0.4
LINKS = {"1gbit": 1e9, "100mbit": 1e8, "10mbit": 1e7}  # bits a second
STEPS = dict.fromkeys(LINKS, 240)  # s2_rivals_thin gives its link more
HOME = "100mbit"  # where ours find their rates
BASELINES = ("allreduce-buckets", "powersgd-1", "powersgd-2", "powersgd-4")
EARLY = ", sent early"  # what PowerSGD would take if all its sending lay beside backward

Way = collections.namedtuple("Way", "baseline bits settings like")  # bits: of a param, both ways, roughly
Found = collections.namedtuple("Found", "goal_s step_s bytes start_s")


def topk(bits, density, codec="topk", like=None, **more):
  update = {"codec": codec, "pipeline": "on", "merge": "auto", "density": density, **more}
  return Way("", bits, {f"swarm__exchange__update__{key}": value for key, value in update.items()}, like)


def rival(baseline, density=0.01):
  return Way(baseline, 0, {"swarm__exchange__update__density": density}, None)


PLAIN = {"topk .3 %": topk(0.7, 0.003), "topk 1 %": topk(1.8, 0.01), "topk 3 %": topk(5, 0.03)}
OURS = {
  **PLAIN,
  "topk_int8 1 %": topk(1, 0.01, "topk_int8"),
  "topk_int8 3 %, reply 1": topk(1.4, 0.03, "topk_int8", reply=1),
}
RIVALS = {
  **{name: rival(name) for name in BASELINES},
  **{f"topk-layers {text} %": rival("topk-layers", part) for text, part in ((".3", 0.003), ("1", 0.01), ("3", 0.03))},
}
ALONE, AFTER = ", each slice alone", ", after backward"  # their rates are those of what they are like
WAYS = {
  **OURS,
  **RIVALS,
  **{
    name + ALONE: way._replace(settings={**way.settings, "swarm__exchange__update__merge": "off"}, like=name)
    for name, way in PLAIN.items()
  },
  **{
    name + AFTER: way._replace(
      settings={**way.settings, "swarm__exchange__update__merge": "off", "swarm__exchange__update__pipeline": "off"},
      like=name,
    )
    for name, way in PLAIN.items()
  },
}
FAMILIES = {"all-reduce in buckets": "allreduce", "PowerSGD": "powersgd", "top-k of each layer": "topk-layers"}


@functools.cache
def played(name, rate, link, seed):
  way = WAYS[name]
  flags = [
    "--latency",
    "1ms",
    "--rate",
    link,
    "--compute",
    f"{1e3 * STEP_S:g}ms",
    "--steps",
    STEPS[link],
    "--seed",
    seed,
  ]
  if way.baseline:  # computed by the step; the swarm beside it ends at once
    flags += ["--seconds", 0.01, "--baseline", way.baseline, "--every", LOOK * STEP_S]
  else:
    flags += ["--seconds", 1_000_000, "--every", f"{LOOK * (1.1 * STEP_S + PARAMS * way.bits / LINKS[link]):.3f}"]
  try:
    _, rows = simulate(
      CONFIG, AGENTS, flags, agent__data__path=data(), swarm__optimizer__learning_rate=rate, **way.settings
    )
  except SystemExit as error:
    if "lower swarm.optimizer.learning_rate" in str(error):  # it diverged, and the agents gave up
      return []
    raise
  rows = curves.read([row for row in rows if row["series"] == (way.baseline or "mean")])
  return [row for row in rows if way.baseline or row.step < STEPS[link]]  # then they settle, without steps


def found(case):
  """Of one run: seconds to the goal, and of a step, since the first one; what an agent sends a step; seconds until
  then."""
  name, rate, link, seed = case
  rows = played(name, rate, link, seed)
  if max((row.step for row in rows if math.isfinite(row.loss)), default=0) < STEPS[link] / 2:
    return Found(math.inf, math.nan, math.nan, math.nan)  # it diverged
  pace = curves.pace(rows, STEPS[link] / 4, STEPS[link], AGENTS)
  first = rows[0] if WAYS[name].baseline else next(row for row in rows if row.step > 0)
  start_s = first.time_s - first.step * pace.seconds
  crossing = curves.crossing(curves.smoothed([(row.time_s - start_s, row.loss) for row in rows]), GOAL)
  return Found(math.inf if crossing is None else crossing, pace.seconds, pace.bytes, start_s)


def goal_s(name, rate, link, seeds):
  return statistics.mean(found((name, rate, link, seed)).goal_s for seed in seeds)


def best_rate(name, say):
  """The fastest to the goal of rates a factor of 2 apart, a slower one on either side, and of those half way."""
  seconds = {}

  def of(at):
    if at not in seconds:
      seconds[at] = goal_s(name, RATES[at], HOME, TRIALS)
      say(f"{name}, rate {RATES[at]}: {seconds[at]:.2f} s on {HOME}")
    return seconds[at]

  at = RATES.index(FIRST_RATE)
  for apart in (2, 1):
    while (best := min((i for i in (at - apart, at, at + apart) if 0 <= i < len(RATES)), key=of)) != at:
      at = best
  return RATES[at]


def shown(values, digits=2):
  there = [value for value in values if math.isfinite(value)]
  if len(there) < len(values):
    return f"in {len(there)} of {len(values)}"
  return "{:.{d}f} ± {:.{d}f}".format(*interval95(values), d=digits)


class Measured:
  def __init__(self, quick, say, links=None, rates=None):
    """`links`: other ones than all; `rates`: by way, where they are known."""
    self.links = links or ({HOME: LINKS[HOME]} if quick else LINKS)
    self.seeds = SEEDS[:2] if quick else SEEDS
    names = ["topk 1 %", "powersgd-2", "topk-layers 1 %"] if quick else [*OURS, *RIVALS]
    rates = rates or dict(zip(names, two_at_a_time(lambda name: best_rate(name, say), names)))
    self.rates = {name: rates[WAYS[name].like or name] for name in WAYS if (WAYS[name].like or name) in rates}
    trial_cases = [(name, rates[name], link, seed) for name in names for link in self.links for seed in TRIALS]
    self.found = dict(zip(trial_cases, two_at_a_time(found, trial_cases)))
    say("trials are there")
    self.plain = {link: self.fastest(link, PLAIN) for link in self.links}
    self.ours = {link: self.fastest(link, OURS) for link in self.links}
    self.theirs = {
      (link, family): self.fastest(link, [name for name in RIVALS if name.startswith(word)])
      for link in self.links
      for family, word in FAMILIES.items()
    }
    self.rows = {
      link: list(
        dict.fromkeys(
          [
            self.plain[link],
            self.plain[link] + ALONE,
            self.plain[link] + AFTER,
            self.ours[link],
            *(name for name in RIVALS if name in rates),
          ]
        )
      )
      for link in self.links
    }
    cases = [
      (name, self.rates[name], link, seed) for seed in self.seeds for link in self.links for name in self.rows[link]
    ]
    self.found.update(zip(cases, two_at_a_time(found, cases)))

  def of(self, name, link):
    return [self.found[name, self.rates[name], link, seed] for seed in self.seeds]

  def trial(self, name, link):
    return statistics.mean(self.found[name, self.rates[name], link, seed].goal_s for seed in TRIALS)

  def fastest(self, link, names):
    """Of these ways, by the trial seeds; none where --quick ran none of them."""
    there = [name for name in names if name in self.rates]
    return min(there, key=lambda name: self.trial(name, link), default=None)

  def seconds(self, name, link):
    """To the goal, by seed."""
    if not name.endswith(EARLY):
      return [one.goal_s for one in self.of(name, link)]
    return [one.goal_s * early_s(one.step_s) / one.step_s for one in self.of(name.removesuffix(EARLY), link)]


def early_s(step_s):
  """Of a step whose sending, after the step's own compute by the formula, is laid beside backward whole."""
  return FORWARD_S + max(STEP_S - FORWARD_S, step_s - STEP_S)


def choice(measured):
  rows = [
    [name, f"{measured.rates[name]:g}", *(f"{measured.trial(name, link):.2f}" for link in measured.links)]
    for name in [*OURS, *RIVALS]
    if name in measured.rates
  ]
  return table(["way", "rate", *(f"{link}: s to the goal, trial seeds" for link in measured.links)], rows)


def by_time(measured, link):
  rows = []
  for name in measured.rows[link]:
    of = measured.of(name, link)
    steps = [one.goal_s / one.step_s for one in of]
    rows.append(
      [
        name,
        f"{measured.rates[name]:g}",
        f"{1e3 * statistics.mean(one.step_s for one in of):.1f} ms",
        f"{statistics.mean(one.bytes for one in of) / 1e3:.1f} kB",
        f"{max(0, statistics.mean(one.start_s for one in of)):.1f} s",
        shown(steps, 0),
        shown(measured.seconds(name, link)),
      ]
    )
  return f"\n{link}, 1 ms:\n\n" + table(
    [
      "way",
      "rate",
      "a step",
      "sent by an agent a step",
      "lost at the start",
      "to the goal, of such steps",
      f"s to loss {GOAL}",
    ],
    rows,
  )


def compared(measured, link, ours, theirs):
  ratios = [one / other for one, other in zip(measured.seconds(ours, link), measured.seconds(theirs, link))]
  if not all(math.isfinite(ratio) for ratio in ratios):
    return [link, ours, theirs, "not reached by all", ""]
  middle, half = interval95(ratios)
  held = "yes" if middle + half <= 1 else ("no" if middle - half > 1 else "not shown")
  return [link, ours, theirs, f"{middle:.2f} ± {half:.2f}", held]


def claims(measured):
  rows = []
  for link in measured.links:
    plain, ours = measured.plain[link], measured.ours[link]
    for family in FAMILIES:
      theirs = measured.theirs[link, family]
      if theirs is None:
        continue
      rows.append(compared(measured, link, plain, theirs))
      if family == "PowerSGD":
        rows.append(compared(measured, link, plain, theirs + EARLY))
      if ours != plain:
        rows.append(compared(measured, link, ours, theirs))
    rows += [compared(measured, link, plain, plain + what) for what in (ALONE, AFTER)]
  return table(["link", "ours", "beside", "time to the goal, of it", "not slower"], rows)


TABLES = [
  ("choice", ["way"]),
  ("1gbit", ["way"]),
  ("100mbit", ["way"]),
  ("10mbit", ["way"]),
  ("claims", ["link", "ours", "beside"]),
]


def run(repeat=1, quick=False, say=print):
  return print_all(Measured(quick, say))


def print_all(measured):
  return (
    f"{AGENTS} agents, {data_name()} dealt at random, mlp of 300, 200, 100 ({PARAMS:,} params), batch 16. "
    f"Rates by trial seeds {TRIALS}; seeds {measured.seeds}, ± a 95 % interval (Student's t over the seeds), "
    f"ratios paired.\n\nThe choice:\n\n{choice(measured)}"
    + "".join(by_time(measured, link) for link in measured.links)
    + "\nThe claims:\n\n"
    + claims(measured)
  )
