"""Test loss after the same samples and steps: serial SGD, D-PSGD on a ring, all-reduce."""
from lib import table
from simulated import CIFAR, data, data_name, late_loss, mean_and_half_range, simulate, two_at_a_time

CONFIG = """
swarm:
  name: samples
  model: {kind: cnn}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  weight: equal
  exchange: {kind: neighborhood, codec: fp32, overlap: off, deadline_min: 50ms, deadline_max: 500ms}
  topology: {kind: ring}
agent:
  data: {sharding: iid}
  checkpoint: {every: 60s}
"""
# On photographs an end at rate 0, so that no run is judged by its last batch.
ON_CIFAR = {"swarm__model__input": "[3, 32, 32]", "swarm__optimizer__learning_rate": 0.02,
            "swarm__optimizer__momentum": 0.9, "swarm__optimizer__schedule": "cosine"}
BATCH = 64
STEPS, EVERY, SETTINGS = (700, "0.7", ON_CIFAR) if CIFAR else (400, "0.3", {})
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", EVERY]
NAMES = {1: "serial SGD", 4: "D-PSGD ring, n = 4", 8: "D-PSGD ring, n = 8", 16: "D-PSGD ring, n = 16"}


def curve(case):
    n, seed = case
    baseline = ["--baseline", "allreduce"] if n == 8 else []
    return simulate(CONFIG, n, [*FLAGS, "--seed", seed, *baseline], agent__data__path=data(CIFAR),
                    swarm__batch=BATCH // n, **SETTINGS)[1]


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 3 * repeat + 1))
    losses = {}
    curves = iter(two_at_a_time(curve, [(n, seed) for n in ((1, 8) if quick else NAMES) for seed in seeds]))
    for n in (1, 8) if quick else NAMES:
        for _ in seeds:
            rows = next(curves)
            losses.setdefault(NAMES[n], []).append(late_loss(rows, "mean", STEPS * BATCH))
            if n == 8:
                losses.setdefault("all-reduce, n = 8", []).append(late_loss(rows, "allreduce", STEPS * BATCH))
        say(f"{NAMES[n]}: {losses[NAMES[n]]}")
    table_rows = []
    for name, values in losses.items():
        worse, noise = mean_and_half_range([100 * (a / b - 1) for a, b in zip(values, losses["serial SGD"])])
        table_rows.append([name, f"{sum(values) / len(values):.4f}", f"{worse:+.1f} % (± {noise:.1f})"])
    _, seeds_noise = mean_and_half_range(losses["serial SGD"])
    share = 100 * seeds_noise * len(seeds) / sum(losses["serial SGD"])
    return (f"{data_name(CIFAR)}, {STEPS} steps of {BATCH} samples in all, rng seeds {seeds}. Noise between seeds of "
            f"serial SGD: ± {share:.1f} %.\n\n" + table(["", "test loss", "against serial, seed by seed"], table_rows))
