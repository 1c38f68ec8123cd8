"""What `starling topology` says a round costs, beside what agents really sent and received.

Reading: The neighborhood sends what `starling topology` says. The stale cell of pairs holds two exchanges a
round; simulations count one, or two with shared momentum. Two need more than four agents.
"""

import re
import subprocess
import time

import lib
from counting import noise
from lib import LinkedSwarm, Links, middle, pace, swarm_config, table, wait_exchanges

AGENTS, PARAMS = 8, 235_000
MODEL_BYTES = 4 * PARAMS
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
KINDS = {
  "ring": "neighborhood",
  "one-peer": "neighborhood",
  "exponential": "neighborhood",
  "star": "neighborhood",
  "full": "neighborhood",
  "matching": "pairwise",
}


def formula(kind):
  """name -> (messages, bytes) of the busiest node, as the program says."""
  text = subprocess.run(
    [
      str(lib.STARLING),
      "topology",
      "--kind",
      kind,
      "--agents",
      str(AGENTS),
      "--params",
      str(PARAMS),
      "--codec",
      "fp32",
    ],
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  rows = re.findall(r"^  (\S.*?)\s{2,}(\d+)\s+([\d.]+) (B|kB|MB|GB)$", text, re.M)
  return {name: (int(messages), float(amount) * UNITS[unit]) for name, messages, amount, unit in rows}


def last_status(agent, before):
  return [line for line in agent.lines("status") if line["t"] <= before][-1]


def measured(kind, seconds):
  """Bytes a round of the busiest agent, both directions. (The exchange lines would not do: a payload that comes
  before its round has begun is not in them.)"""
  config = swarm_config(
    PARAMS, {"kind": KINDS[kind], "deadline_min": "2s", "deadline_max": "2s", "block": 262144}, kind
  )
  with Links(AGENTS, 0, 1000) as links, LinkedSwarm(config, links, its_pace=lambda i: pace(50)) as swarm:
    wait_exchanges(swarm.agents, 7, 60)
    time.sleep(2)
    begin = time.time()
    time.sleep(seconds)
    end = time.time()
    rounds, traffic = [], []
    for agent in swarm.agents:
      first, last = last_status(agent, begin), last_status(agent, end)
      elapsed = last["t"] - first["t"]
      rounds.append((last["round"] - first["round"]) / elapsed)
      traffic.append(sum(last[key] - first[key] for key in ("bytes_sent", "bytes_received")) / elapsed)
    return max(traffic) / middle(rounds)


TABLES = [
  ("a round", ["what"]),
]


def run(repeat=1, quick=False, say=print):
  kinds = ["ring", "matching"] if quick else list(KINDS)
  rows = []
  for kind in kinds:
    runs = [measured(kind, 6) for _ in range(repeat)]
    traffic = middle(runs)
    said = formula(kind)
    messages, size = said.get(kind, (0, 0))
    rows.append(
      [
        f"{kind} ({KINDS[kind]})",
        messages,
        f"{traffic / MODEL_BYTES:.2f}",
        f"{size / 1e6:.2f}",
        f"{traffic / 1e6:.2f}",
        f"{100 * (traffic / (messages * MODEL_BYTES) - 1):+.1f} %",
        f"{noise(runs):.1f} %",
      ]
    )
    say(str(rows[-1]))
  for name in ("parameter server", "ring all-reduce"):
    rows.append([name, said[name][0], "-", f"{said[name][1] / 1e6:.2f}", "-", "-", "-"])
  head = ["what", "messages, formula", "models, measured", "MB, formula", "MB, measured", "beyond", "noise"]
  return (
    f"A round at the busiest of 8 agents, both directions, fp32; bytes by the transport's counters, {repeat} "
    "repeats.\n\n" + table(head, rows)
  )
