"""Accuracy of 50 local steps a round with an outer step, at 0, 1 and 10 % of the messages lost."""
from updates import compare

LOCAL = {"swarm.exchange.source": "updates", "swarm.local_steps": 50}
OUTER = {**LOCAL, "swarm.exchange.outer.momentum": 0.9, "swarm.exchange.outer.rate": 0.7}
WAYS = {"dense": ({}, None),
        "DiLoCo, fp32": (OUTER, 2.5),
        "DiLoCo, bf16": ({**OUTER, "swarm.exchange.update.codec": "bf16"}, 2.5),
        "DiLoCo, topk 1 %": ({**OUTER, "swarm.exchange.update.codec": "topk"}, None),
        "plain outer step": (LOCAL, None)}


def run(repeat=1, quick=False, say=print):
    return compare(WAYS, 1000, (0.01, 0.03, 0.1, 0.3), quick, say)
