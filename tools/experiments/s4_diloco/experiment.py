"""Accuracy of 50 local steps a round with an outer step, at 0, 1 and 10 % of the messages lost."""
from updates import compare

STEPS = 5000   # 100 rounds
COSINE = {"swarm.optimizer.schedule": "cosine"}
OUTER = {**COSINE, "swarm.exchange.source": "updates", "swarm.local_steps": 50,
         "swarm.exchange.outer.momentum": 0.9, "swarm.exchange.outer.rate": 0.7}
WAYS = {"dense": (COSINE, None),
        "DiLoCo, fp32": (OUTER, 2.5),
        "DiLoCo, bf16": ({**OUTER, "swarm.exchange.update.codec": "bf16"}, 2.5)}


def run(repeat=1, quick=False, say=print):
    return compare(WAYS, STEPS, (0.1, 0.2, 0.3), quick, say)
