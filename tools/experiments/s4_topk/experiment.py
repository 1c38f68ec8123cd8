"""Accuracy of top-k gradients with error feedback on the log of updates, at 0, 1 and 10 % of the messages lost.

Reading: Top-k gradients with error feedback stay within the margin at each rate of loss. What no entry counts stays
in the accumulator and comes later. Without repair agents fall apart by label.
"""

from updates import SEEDS, compare  # noqa: F401

STEPS = 1500
GRADIENTS = {"swarm.exchange.source": "gradients"}
TOPK = {**GRADIENTS, "swarm.exchange.update.density": 0.01, "swarm.exchange.update.reply": 2}
WAYS = {
  "dense": ({}, None),
  "gradients, fp32": (GRADIENTS, 1.5),
  "gradients, topk 1 %": ({**TOPK, "swarm.exchange.update.codec": "topk"}, 1.5),
  "gradients, topk 1 %, bf16": ({**TOPK, "swarm.exchange.update.codec": "topk_bf16"}, 1.5),
}


TABLES = [
  ("rates tried", ["way"]),
  ("accuracy", ["way", "rate", "lost"]),
]


def run(repeat=1, quick=False, say=print):
  return compare(WAYS, STEPS, (0.1, 0.3), quick, say)
