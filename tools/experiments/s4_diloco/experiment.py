"""Accuracy of 50 local steps a round with an outer step, at 0, 1 and 10 % of the messages lost.

Reading: Fifty local steps with an outer step stay within the margin, also where messages are lost. Too few rounds do
not: the outer momentum overshoots. Codes of two bytes cost nothing that shows.
"""

from updates import SEEDS, compare  # noqa: F401

STEPS = 5000  # 100 rounds
COSINE = {"swarm.optimizer.schedule": "cosine"}
OUTER = {
  **COSINE,
  "swarm.exchange.source": "updates",
  "swarm.local_steps": 50,
  "swarm.exchange.outer.momentum": 0.9,
  "swarm.exchange.outer.learning_rate": 0.7,
}
WAYS = {
  "dense": (COSINE, None),
  "DiLoCo, fp32": (OUTER, 2.5),
  "DiLoCo, bf16": ({**OUTER, "swarm.exchange.update.codec": "bf16"}, 2.5),
}


TABLES = [
  ("rates tried", ["way"]),
  ("accuracy", ["way", "rate", "lost"]),
]


def run(repeat=1, quick=False, say=print):
  return compare(WAYS, STEPS, (0.1, 0.2, 0.3), quick, say)
