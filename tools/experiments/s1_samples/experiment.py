"""Test loss after the same samples and steps: serial SGD, D-PSGD on a ring, all-reduce."""
from lib import table
from simulated import data, data_name, late_loss, mean_and_half_range, simulate

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
STEPS, BATCH = 400, 64
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "0.3"]


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 3 * repeat + 1))
    names = {1: "serial SGD", 4: "D-PSGD ring, n = 4", 8: "D-PSGD ring, n = 8", 16: "D-PSGD ring, n = 16"}
    losses = {}
    for n in (1, 8) if quick else names:
        for seed in seeds:
            baseline = ["--baseline", "allreduce"] if n == 8 else []
            _, rows = simulate(CONFIG, n, [*FLAGS, "--seed", seed, *baseline], agent__data__path=data(),
                               swarm__batch=BATCH // n)
            losses.setdefault(names[n], []).append(late_loss(rows, "mean", STEPS * BATCH))
            if baseline:
                losses.setdefault("all-reduce, n = 8", []).append(late_loss(rows, "allreduce", STEPS * BATCH))
        say(f"{names[n]}: {losses[names[n]]}")
    table_rows = []
    for name, values in losses.items():
        worse, noise = mean_and_half_range([100 * (a / b - 1) for a, b in zip(values, losses["serial SGD"])])
        table_rows.append([name, f"{sum(values) / len(values):.4f}", f"{worse:+.1f} % (± {noise:.1f})"])
    _, seeds_noise = mean_and_half_range(losses["serial SGD"])
    share = 100 * seeds_noise * len(seeds) / sum(losses["serial SGD"])
    return (f"{data_name()}, {STEPS} steps of {BATCH} samples in all, rng seeds {seeds}. Noise between seeds of serial "
            f"SGD: ± {share:.1f} %.\n\n" + table(["", "test loss", "against serial, seed by seed"], table_rows))
