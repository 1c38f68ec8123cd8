"""What s4_topk and s4_diloco share: accuracy of agents that share updates, at several rates of lost messages, against
dense averaging without loss. Every way has the learning rate that is best for itself, chosen on seeds of its own."""

import os
import pathlib

from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

MNIST = os.environ.get("STARLING_MNIST", "")  # a folder with 8,500 and 1,500 digits in IDX files
CONFIG = """
swarm:
  name: updates
  model: {kind: mlp, hidden: [64]}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  batch: 16
  weight: equal
  exchange: {kind: group, codec: fp32, overlap: off, deadline_min: 50ms, deadline_max: 500ms}
agent:
  data: {sharding: labels}
  threads: 1
  checkpoint: {every: 60s}
"""
AGENTS, LOSSES = 8, (0, 0.01, 0.1)
TRIAL_SEEDS, SEEDS = (101, 102), tuple(range(1, 9))
FLAGS = ["--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "100000"]


def keys(settings):
  return {key.replace(".", "__"): value for key, value in settings.items()}


def accuracy(case):
  """In percent, the mean over the agents' own models."""
  steps, settings, rate, lost, seed = case
  summary, _ = simulate(
    CONFIG,
    AGENTS,
    [*FLAGS, "--steps", steps, "--seed", seed],
    agent__data__path=data(MNIST),
    inject_loss=lost,
    swarm__optimizer__learning_rate=rate,
    **keys(settings),
  )
  return 100 * summary["final"]["mean"]["accuracy"]


def digits():
  """What is trained on; MNIST's files hold 28 x 28 bytes a digit."""
  if not MNIST:
    return data_name()
  return f"{(pathlib.Path(MNIST) / 'train-images-idx3-ubyte').stat().st_size // 784:,} handwritten digits (MNIST)"


def mean(values):
  return sum(values) / len(values)


def measure(cases, say):
  """The accuracy of each case; `say` hears of each as soon as it is there, since all of them take most of an hour."""

  def one(case):
    value = accuracy(case)
    say(f"{case}: {value:.2f}")
    return value

  return two_at_a_time(one, cases)


def compare(ways, steps, rates, quick, say):
  """`ways`: name -> (settings, margin in points or None); the first is the reference. Those without a margin are
  shown without loss only. Markdown."""
  trials = [(name, rate, seed) for name in ways for rate in rates for seed in TRIAL_SEEDS[: 1 if quick else None]]
  found = dict(zip(trials, measure([(steps, ways[name][0], rate, 0, seed) for name, rate, seed in trials], say)))
  best, tried = {}, []
  for name in ways:
    means = {
      rate: mean([value for (way, one, _), value in found.items() if (way, one) == (name, rate)]) for rate in rates
    }
    best[name] = max(means, key=means.get)
    tried.append([name, *(f"{means[rate]:.1f}" + (" *" if rate == best[name] else "") for rate in rates)])
    say(f"{name}: {means}")
  seeds = SEEDS[:2] if quick else SEEDS
  reference = next(iter(ways))
  losses = {name: (0,) if margin is None else LOSSES for name, (_, margin) in ways.items()}
  cases = [(name, lost, seed) for name in ways for lost in losses[name] for seed in seeds]
  results = dict(
    zip(cases, measure([(steps, ways[name][0], best[name], lost, seed) for name, lost, seed in cases], say))
  )
  rows = []
  for name, (_, margin) in ways.items():
    for lost in losses[name]:
      values = [results[name, lost, seed] for seed in seeds]
      gaps = [results[name, lost, seed] - results[reference, 0, seed] for seed in seeds]
      middle, half = interval95(gaps)
      held = "" if margin is None else ("yes" if max(abs(middle - half), abs(middle + half)) <= margin else "no")
      rows.append(
        [
          name,
          f"{best[name]:g}",
          f"{100 * lost:g} %",
          f"{mean(values):.2f} %",
          "" if name == reference else f"{middle:+.2f} ± {half:.2f}",
          "" if margin is None else f"{margin:g}",
          held,
        ]
      )
      say(f"{name}, {lost}: {values}")
  return (
    f"{AGENTS} agents, {digits()} by label, {steps} steps, mlp of 64, batch 16, SGD; accuracy on the "
    f"test digits, mean over the agents' own models. The rate of each was chosen without loss on seeds "
    f"{TRIAL_SEEDS} (* the best):\n\n"
    + table(["way", *(f"rate {rate:g}" for rate in rates)], tried)
    + f"\n\nSeeds {seeds}, paired; ± is a 95 % interval (Student's t over the seeds).\n\n"
    + table(["way", "rate", "lost", "accuracy", "points against " + reference, "margin", "interval within it"], rows)
  )
