"""Test loss after the same samples and steps: serial SGD, D-PSGD on a ring, all-reduce."""
from lib import table
from simulated import CIFAR, data, data_name, mean_and_half_range, simulate, two_at_a_time

CONFIG = """
swarm:
  name: samples
  model: {kind: cnn}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0, schedule: cosine}
  weight: equal
  exchange: {kind: neighborhood, codec: fp32, overlap: off, deadline_min: 50ms, deadline_max: 500ms}
  topology: {kind: ring}
agent:
  data: {sharding: iid}
  checkpoint: {every: 60s}
"""
BATCH = 64
STEPS, SETTINGS = (1400, {"swarm__model__input": "[3, 32, 32]"}) if CIFAR else (400, {})
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "1000"]
NAMES = {1: "serial SGD", 4: "D-PSGD ring, n = 4", 8: "D-PSGD ring, n = 8", 16: "D-PSGD ring, n = 16"}


def final(case):
    n, seed = case
    baseline = ["--baseline", "allreduce"] if n == 8 else []
    return simulate(CONFIG, n, [*FLAGS, "--seed", seed, *baseline], agent__data__path=data(CIFAR),
                    swarm__batch=BATCH // n, **SETTINGS)[0]["final"]


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 3 * repeat + 1))
    losses = {}
    finals = iter(two_at_a_time(final, [(n, seed) for n in ((1, 8) if quick else NAMES) for seed in seeds]))
    for n in (1, 8) if quick else NAMES:
        for _ in seeds:
            series = next(finals)
            losses.setdefault(NAMES[n], []).append(series["mean"]["loss"])
            if n == 8:
                losses.setdefault("all-reduce, n = 8", []).append(series["allreduce"]["loss"])
        say(f"{NAMES[n]}: {losses[NAMES[n]]}")
    table_rows = []
    for name, values in losses.items():
        worse, noise = mean_and_half_range([100 * (a / b - 1) for a, b in zip(values, losses["serial SGD"])])
        table_rows.append([name, f"{sum(values) / len(values):.4f}", f"{worse:+.1f} % (± {noise:.1f})"])
    _, seeds_noise = mean_and_half_range(losses["serial SGD"])
    share = 100 * seeds_noise * len(seeds) / sum(losses["serial SGD"])
    return (f"{data_name(CIFAR)}, {STEPS} steps of {BATCH} samples in all, rng seeds {seeds}. Noise between seeds of "
            f"serial SGD: ± {share:.1f} %.\n\n" + table(["", "test loss", "against serial, seed by seed"], table_rows))
