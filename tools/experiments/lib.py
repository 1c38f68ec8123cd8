"""Helpers of tools/experiments: emulated links, agents and gloo's all-reduce on them, and tables."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bench_swarm import ROOT, STARLING, Process, Swarm, find_program, pace  # noqa: F401

JOIN_MBIT = 100  # at least, while a swarm joins


class Links:
  """N nodes, each with one link of its own, all alike (link_relay.cpp)."""

  def __init__(self, nodes, delay_ms=0.0, rate_mbit=0.0):
    command = [
      str(find_program("experiments/link_relay")),
      "--nodes",
      str(nodes),
      "--delay-ms",
      str(delay_ms),
      "--rate-mbit",
      str(rate_mbit),
    ]
    self.process = subprocess.Popen(
      command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = self.process.stdout.readline()
    if not line:
      raise SystemExit(self.process.stderr.read())
    self.nodes = json.loads(line)["nodes"]

  def tell(self, command):
    """`rate all 10`, `delay 3 50`, `loss 3 0.1`, `cut 3`, `heal 3`: see link_relay.cpp."""
    self.process.stdin.write(command + "\n")
    self.process.stdin.flush()

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.process.stdin.close()
    self.process.wait(timeout=10)
    self.process.stdout.close()
    self.process.stderr.close()


def check_link(delay_ms, rate_mbit):
  """What an empty link of this kind measures: round_trip_ms, rate_mbit."""
  command = [
    str(find_program("experiments/link_relay")),
    "--check",
    "--delay-ms",
    str(delay_ms),
    "--rate-mbit",
    str(rate_mbit),
  ]
  done = subprocess.run(command, capture_output=True, text=True, timeout=60)
  if not done.stdout:
    raise SystemExit(done.stderr)
  return json.loads(done.stdout)


class Agent(Process):
  """An agent on a node of `links`; what it measures is read as from any other."""

  def __init__(self, folder, name, node, arguments, environment):
    self.folder = pathlib.Path(folder) / name
    self.folder.mkdir(parents=True)
    self.metrics = self.folder / "metrics.jsonl"
    command = [
      "nsenter",
      f"--net={node['namespace']}",
      str(STARLING),
      "agent",
      "--name",
      name,
      "--state",
      str(self.folder / "state"),
      "--metrics",
      str(self.metrics),
      "--set",
      "agent.metrics_every=0s",
      "--listen",
      f"{node['address']}:7400",
      *arguments,
    ]
    with open(self.folder / "log", "w") as log:
      self.process = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
      )


class LinkedSwarm(Swarm):
  """One agent a node. `own(i)`: further arguments of agent i alone; `its_pace(i)`: its pretended pace, as pace() says;
  {}: what it computes. The first one trains alone until the others have
  joined it, unless all start `together`: each then waits for another before its first step."""

  def __init__(self, config, links, own=lambda i: [], together=False, its_pace=lambda i: {}):
    self.scratch = tempfile.TemporaryDirectory(prefix="starling-experiment-")
    self.config = pathlib.Path(self.scratch.name) / "swarm.yaml"
    self.config.write_text(config)
    self.agents = []
    for i, node in enumerate(links.nodes):
      known = [one for one in links.nodes if one is not node] if together else links.nodes[:1] if i > 0 else []
      bootstrap = [text for one in known for text in ("--bootstrap", f"{one['address']}:7400")]
      arguments = ["--config", str(self.config), "--set", "swarm.trust=open", *bootstrap, *own(i)]
      self.agents.append(Agent(self.scratch.name, f"agent-{i}", node, arguments, its_pace(i)))
      if i == 0 and not together:
        self.agents[0].wait_for("start", 30)
    for agent in self.agents:
      agent.wait_for("joined", 60)
    deadline = time.monotonic() + 30
    while any(not a.lines("status") or a.lines("status")[-1]["peers"] < len(links.nodes) - 1 for a in self.agents):
      if time.monotonic() > deadline:
        raise SystemExit("experiment: the agents did not all find each other")
      time.sleep(0.1)


def wait_exchanges(agents, count, seconds):
  """Until every agent has finished so many more exchanges than now."""
  begin = time.time()
  while min(sum(x["t"] > begin for x in agent.lines("exchange")) for agent in agents) < count:
    if time.time() > begin + seconds:
      raise SystemExit(f"experiment: less than {count} exchanges of each agent in {seconds:.0f} s")
    time.sleep(0.1)


def processor_s(agents):
  """Of these agents, since each began."""
  return sum(sum(agent.processor_ms().values()) for agent in agents) / 1e3


def busy_s():
  """Of all processors, by all programs, since the machine began."""
  ticks = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
  return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # but for idle and waiting for disks


def swarm_config(params, exchange, topology="matching", local_steps=1, membership=None):
  """The settings of a timing run: no checkpoints, no learning."""
  exchange = {"codec": "fp32", "overlap": "off", "share": "[params]", **exchange}
  membership = {"probe_interval": "2s", "probe_timeout": "1500ms", **(membership or {})}

  def inline(values):
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"

  return f"""
swarm:
  name: experiment
  model: {{kind: quadratic, dimension: {params}}}
  optimizer: {{kind: sgd, learning_rate: 0, momentum: 0}}
  local_steps: {local_steps}
  exchange: {inline(exchange)}
  topology: {{kind: {topology}}}
  membership: {inline(membership)}
agent:
  checkpoint: {{every: 0s}}
  evaluate_every: 0s
"""


def gloo(links, params, seconds, algorithm="ring", **options):
  """All-reduces of `params` floats between all nodes, one after the other; compute_ms=... and so on as bench_gloo."""
  arguments = [len(links.nodes), params, seconds]
  flags = [text for name, value in options.items() for text in ("--" + name.replace("_", "-"), value)]
  for node in links.nodes:
    flags += ["--node", node["namespace"], node["address"]]
  with tempfile.TemporaryDirectory() as store:
    command = [find_program("bench_gloo"), *arguments, store, "--algorithm", algorithm, *flags]
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=600)
  if done.returncode != 0:
    raise SystemExit(f"bench_gloo {algorithm}: {done.stderr[-500:]}")
  return json.loads(done.stdout.strip().splitlines()[-1])


def middle(values):
  return statistics.median(values)


def table(head, rows):
  lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
  return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"
