"""Time to accuracy of the worst agent: pairs by turns, and pairs beside the steps that share one snapshot."""
from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: pairs_turns
  model: {kind: cnn, channels: 16}
  optimizer: {kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 0}
  batch: 64
  local_steps: 1
  exchange: {kind: pairwise, codec: modulo8, carry: [params, momentum], deadline_min: 20ms, deadline_max: 500ms}
agent:
  threads: 1
"""
SECONDS = 12
FLAGS = ["--seconds", SECONDS, "--steps", 100000, "--every", 0.25, "--latency", "50ms", "--rate", "100mbit",
         "--compute", "40ms"]
GOALS = (0.93, 0.95)
CELLS = [(4, "labels"), (2, "labels"), (3, "labels"), (5, "labels"), (8, "labels"), (4, "iid")]
QUICK = [(4, "labels")]


def reached(case):
    """When the worst agent first reaches each goal; SECONDS where it does not. And the steps of an agent."""
    agents, sharding, overlap, seed = case
    _, rows = simulate(CONFIG, agents, [*FLAGS, "--seed", seed], agent__data__path=data(),
                       agent__data__sharding=sharding, swarm__exchange__overlap=overlap)
    worst = {}
    for row in rows:
        if row["series"] == "swarm" and row["agent"] != "":
            at = float(row["virtual_s"])
            worst[at] = min(worst.get(at, 1), float(row["accuracy"]))
    steps = max(int(row["step"]) for row in rows if row["series"] == "swarm")
    return [next((at for at in sorted(worst) if worst[at] >= goal), None) for goal in GOALS], steps


def said(times):
    if None in times:
        return f"not in {times.count(None)} of {len(times)} runs"
    return f"{times[0]:.1f} s" if len(times) == 1 else "{:.1f} ± {:.1f} s".format(*interval95(times))


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 3 * repeat + 1))
    cells = [(*cell, overlap) for cell in (QUICK if quick else CELLS) for overlap in ("on", "auto")]
    results = iter(two_at_a_time(reached, [(*cell, seed) for cell in cells for seed in seeds]))
    rows = []
    for agents, sharding, overlap in cells:
        found = [next(results) for _ in seeds]
        times = [said([one[0][i] for one in found]) for i in range(len(GOALS))]
        per_step = 1e3 * SECONDS * len(found) / sum(one[1] for one in found)
        rows.append([agents, sharding, "by turns" if overlap == "auto" else "shares", *times, f"{per_step:.0f}"])
        say(f"{rows[-1]}")
    return (f"{data_name()}, rng seeds {seeds}, {SECONDS} s of virtual time.\n\n" +
            table(["agents", "data", "pairs", "93 %", "95 %", "ms a step"], rows))
