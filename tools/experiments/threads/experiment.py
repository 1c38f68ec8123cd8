"""Steps a second of one agent, and of two on one machine, by number of threads and by how threads wait.

Reading: Threads that spin briefly and then sleep reach the goal, alone and beside another agent. Threads that spin
for long make two agents on one machine crawl. Threads that sleep at once slow an agent alone.
"""

import os
import pathlib
import subprocess
import tempfile
import time

from counting import interval95, steps_per_s
from lib import STARLING, Swarm, table

GROW, WINDOW, TURNS = 5, 10, 5
SEEDS = TURNS  # so often is each cell measured
WAITS = {"briefly": {}, "long": {"GOMP_SPINCOUNT": "300000"}}
FIXED = sorted({1, max(1, len(os.sched_getaffinity(0)) // 2), len(os.sched_getaffinity(0))})


def config():
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "swarm.yaml"
    subprocess.run([str(STARLING), "init", "--task", "digits", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path.read_text()


def rate(agents, threads, wait):
  """Of all agents together."""
  environment = dict(WAITS[wait], OMP_NUM_THREADS=str(max(FIXED)))  # as without OMP_NUM_THREADS
  arguments = ["--data", "generated", "--threads", str(threads), "--set", "swarm.stop_after=0", "--wait-for", "1"]
  with Swarm(config(), agents, arguments, environment) as swarm:
    since = time.time() + GROW
    time.sleep(GROW + WINDOW)
    return sum(steps_per_s(agent.lines(), since, since + WINDOW) for agent in swarm.agents)


TABLES = [
  ("steps a second", ["agents", "threads that wait spin"]),
  ("ratios", ["agents"]),
]


def run(repeat=1, quick=False, say=print):
  cells = [(agents, threads, wait) for agents in (1, 2) for wait in WAITS for threads in (*FIXED, 0)]
  found = {cell: [] for cell in cells}
  for turn in range(2 if quick else TURNS * repeat):
    for cell in cells:
      found[cell].append(rate(*cell))
      say(f"turn {turn}: {cell} {found[cell][-1]:.1f}")

  def ratio(above, below):
    mean, off = interval95([a / b for a, b in zip(above, below)])
    return f"{mean:.2f} (± {off:.2f})"

  most, rates, ratios = max(FIXED), [], []
  for agents in (1, 2):
    for wait in WAITS:
      rates.append(
        [
          agents,
          wait,
          *("{:.1f} (± {:.1f})".format(*interval95(found[agents, threads, wait])) for threads in (*FIXED, 0)),
        ]
      )
    best = {
      wait: [max(of_turn) for of_turn in zip(*(found[agents, threads, wait] for threads in FIXED))] for wait in WAITS
    }
    ratios.append(
      [
        agents,
        *(ratio(found[agents, 0, wait], best[wait]) for wait in WAITS),
        ratio(found[agents, most, "briefly"], found[agents, most, "long"]),
        ratio(found[agents, 0, "briefly"], best["long"]),
      ]
    )
  return (
    f"Steps a second, of two agents their sum, {len(found[cells[0]])} turns.\n\n"
    + table(["agents", "threads that wait spin", *(f"`--threads {n}`" for n in FIXED), "`--threads 0`"], rates)
    + "\nThe best fixed number of each turn is taken, so a ratio to it is a little low by chance.\n\n"
    + table(
      [
        "agents",
        "0 over the best fixed number, briefly",
        "the same, long",
        f"`--threads {most}` briefly over long",
        "0 briefly over the best fixed number, long",
      ],
      ratios,
    )
  )
