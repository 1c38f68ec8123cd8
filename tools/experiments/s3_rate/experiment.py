"""Error of the mean on noisy quadratics over agents and lost blocks.

Reading: More agents average the noise at every rate of loss. Lost blocks cost less than the bound allows. That the
factor shrinks with more agents is not seen.
"""

from lib import table
from simulated import late_loss, simulate

CONFIG = """
swarm:
  name: rate
  model: {kind: quadratic, dimension: 256, noise: 1}
  optimizer: {kind: sgd, learning_rate: 0.05, momentum: 0}
  weight: equal
  exchange: {kind: group, codec: fp32, overlap: off, block: 64, deadline_min: 20ms, deadline_max: 100ms}
"""
STEPS = 400
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "10ms", "--every", "0.05"]


SEEDS = 3
TABLES = [
  ("error", ["n", "lost"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  error = {}
  for n in (4, 16) if quick else (4, 8, 16):
    for p in (0, 0.4) if quick else (0, 0.1, 0.2, 0.4):
      losses = []
      for seed in seeds:
        _, rows = simulate(CONFIG, n, [*FLAGS, "--seed", seed], inject_loss=p)
        steps = max(int(row["step"]) for row in rows if row["series"] == "mean" and int(row["step"]) <= STEPS)
        samples = next(float(row["samples"]) for row in rows if row["series"] == "mean" and int(row["step"]) == steps)
        losses.append(late_loss(rows, "mean", samples))
      error[n, p] = losses
    say(f"n = {n}: {error[n, 0]}")
  rows = []
  for (n, p), losses in error.items():
    mean = sum(losses) / len(losses)
    base = sum(error[n, 0]) / len(losses)
    bound = (1 + (p * (1 - p)) ** 0.5) ** 2 / (1 - p) ** 2
    first = sum(error[min(n for n, _ in error), p]) / len(losses)
    rows.append(
      [
        n,
        f"{100 * p:g} %",
        f"{mean:.2e}",
        f"{min(losses):.2e}..{max(losses):.2e}",
        f"{mean / base:.2f}x",
        f"{bound:.1f}x",
        f"{mean / first:.2f}x",
      ]
    )
  return f"{STEPS} steps, rng seeds {seeds}.\n\n" + table(
    ["n", "lost", "error of the mean", "range over seeds", "of no loss", "bound", "of n = 4"], rows
  )
