"""Helpers of tools/bench: agents as real processes on loopback, watched through their metrics."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STARLING = ROOT / "build" / "starling"
EACH_EXCHANGE = ["--set", "agent.metrics_every=0s"]  # a line for each; a program of before that key writes them anyway
sys.path.insert(0, str(ROOT / "tools" / "lib"))


def find_program(name):
  path = ROOT / "build" / "meson" / "tools" / name
  if not os.access(path, os.X_OK):
    raise SystemExit(f"bench: no {name} here; run tools/build first (bench_gloo needs Debian's libgloo-dev)")
  return path


def config_text(
  dimension,
  codec,
  kind="pairwise",
  overlap="on",
  learning_rate=0,
  local_steps=1,
  model="quadratic",
  deadlines="deadline_min: 2s, deadline_max: 5s",
  topology="matching",
  source="params",
  trust="open",
):
  return f"""
swarm:
  name: bench
  trust: {trust}
  model: {{kind: {model}, dimension: {dimension}}}
  optimizer: {{kind: sgd, learning_rate: {learning_rate}, momentum: 0}}
  local_steps: {local_steps}
  exchange: {{kind: {kind}, source: {source}, codec: {codec}, share: [params], overlap: {overlap}, {deadlines}}}
  topology: {{kind: {topology}}}
  membership: {{probe_interval: 500ms, probe_timeout: 300ms}}
agent:
  checkpoint: {{every: 0s}}
  evaluate_every: 0s
"""


def pace(compute_ms, layers=""):
  """The environment of an agent that pretends that a step takes this long, layer by layer as a table says."""
  return {"STARLING_TEST_COMPUTE_MS": str(compute_ms), "STARLING_TEST_LAYERS": str(layers)}


class Process:
  """One agent with its folder, its metrics and its resident memory."""

  def __init__(self, folder, name, arguments, environment):
    self.folder = pathlib.Path(folder) / name
    self.folder.mkdir(parents=True)
    self.metrics = self.folder / "metrics.jsonl"
    command = [
      str(STARLING),
      "agent",
      "--name",
      name,
      "--state",
      str(self.folder / "state"),
      "--metrics",
      str(self.metrics),
      *EACH_EXCHANGE,
      "--listen",
      "127.0.0.1:0",
      *arguments,
    ]
    with open(self.folder / "log", "w") as log:
      self.process = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
      )

  def lines(self, event=None):
    if not self.metrics.exists():
      return []
    found = []
    for text in self.metrics.read_text().splitlines():
      try:
        line = json.loads(text)
      except ValueError:
        continue  # the last line of a file that grows
      if event is None or line["event"] == event:
        found.append(line)
    return found

  def wait_for(self, event, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
      found = self.lines(event)
      if found:
        return found[-1]
      if self.process.poll() is not None:
        break
      time.sleep(0.05)
    raise SystemExit(
      f"bench: no '{event}' from {self.folder}; its log ends with:\n" + (self.folder / "log").read_text()[-2000:]
    )

  def forget_peak(self):
    """Starts the peak anew: what the start alone needed is over."""
    pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

  def peak_bytes(self):
    for line in (pathlib.Path("/proc") / str(self.process.pid) / "status").read_text().splitlines():
      if line.startswith("VmHWM"):
        return int(line.split()[1]) * 1024
    raise SystemExit("bench: no VmHWM in /proc")

  def processor_ms(self):
    """Processor time so far, by kind of thread: control, worker (any other of ours), network (ZeroMQ's)."""
    spent = {"control": 0, "worker": 0, "network": 0}
    for task in (pathlib.Path("/proc") / str(self.process.pid) / "task").iterdir():
      name, fields = (task / "stat").read_text().rsplit(")", 1)
      others = "network" if "(ZMQ" in name else "worker"
      kind = "control" if int(task.name) == self.process.pid else others
      ticks = sum(int(field) for field in fields.split()[11:13])  # user, system
      spent[kind] += 1e3 * ticks / os.sysconf("SC_CLK_TCK")
    return spent

  def stop(self, how=signal.SIGINT):
    if self.process.poll() is None:
      self.process.send_signal(how)
      try:
        self.process.wait(timeout=5)
      except subprocess.TimeoutExpired:
        self.process.kill()
        self.process.wait()


class Swarm:
  """N agents that pretend that a step takes 1 ms, if no environment says otherwise; the first is the address the others
  join through."""

  def __init__(self, config, agents, arguments=(), environment=None):
    self.environment = pace(1) if environment is None else environment
    self.scratch = tempfile.TemporaryDirectory(prefix="starling-bench-")
    self.config = pathlib.Path(self.scratch.name) / "swarm.yaml"
    self.config.write_text(config)
    self.agents = []
    self.add(["--config", str(self.config), *arguments])
    self.address = self.agents[0].wait_for("start", 30)["endpoint"]
    ticket = self.agents[0].folder / "state" / "ticket"
    if ticket.exists():
      self.address = f"@{ticket}"
    for _ in range(agents - 1):
      self.add(["--config", str(self.config), "--bootstrap", self.address, *arguments])
    for agent in self.agents:
      agent.wait_for("joined", 60)

  def add(self, arguments):
    self.agents.append(Process(self.scratch.name, f"agent-{len(self.agents)}", arguments, self.environment))
    return self.agents[-1]

  def wait_for_exchanges(self, count, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
      last = [agent.lines("status")[-1:] for agent in self.agents]
      if all(line and line[0]["exchanges"]["done"] >= count for line in last):
        return
      time.sleep(0.2)
    raise SystemExit(f"bench: no {count} exchanges in {seconds} s")

  def __enter__(self):
    return self

  def __exit__(self, *_):
    for agent in self.agents:
      agent.stop(signal.SIGKILL)
    self.scratch.cleanup()
