"""What joining costs a PyTorch loop, beside the same loop without it. `tools/bench attach` runs it.

Its own process is the loop that is measured; `peer ADDRESS SIZE` is the other member, which trains until it is killed.
`found STATE SIZE` is one that begins the swarm.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "agent/attach/python"))
os.environ["STARLING_LIBRARY"] = os.environ.get(
  "STARLING_LIBRARY", str(pathlib.Path(__file__).resolve().parent.parent / "build/meson/agent/attach/libstarling.so")
)

import torch
from torch import nn

import starling

MODELS = {"2 M": (784, 1024, 1024, 128, 10), "10 M": (784, 2560, 2560, 512, 10)}
BATCH, BURST, PAIRS = 32, 16, 60
ALONE = {"listen": "127.0.0.1:0", "wait_for": 1, "agent": {"checkpoint": {"every": "0s"}}}


class Loop:
  def __init__(self, size, seed=1):
    torch.manual_seed(seed)
    widths = MODELS[size]
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    self.model = nn.Sequential(*layers)
    self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
    self.inputs, self.labels = torch.randn(BATCH, widths[0]), torch.randint(widths[-1], (BATCH,))

  def step(self):
    self.optimizer.zero_grad()
    loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
    loss.backward()
    self.optimizer.step()
    return loss.item()


def bytes_of(model):
  return sum(4 * tensor.numel() for tensor in model.parameters())


def burst(loop, swarm, clock):
  began = clock()
  for _ in range(BURST):
    loss = loop.step()
    if swarm is not None:
      swarm.step(loss, BATCH)
  return clock() - began


def interval(values):
  half = 1.96 * statistics.stdev(values) / len(values) ** 0.5
  return f"{statistics.mean(values):+.1f} % ± {half:.1f}"


def overhead(swarm, joined, plain, clock):
  for loop, of in ((plain, None), (joined, swarm)):
    burst(loop, of, clock)
  return interval([100 * (burst(joined, swarm, clock) / burst(plain, None, clock) - 1) for _ in range(PAIRS)])


def resident():
  fields = pathlib.Path("/proc/self/statm").read_text().split()
  return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def other(role, where, size):
  child = subprocess.Popen([sys.executable, __file__, role, where, size])
  try:
    yield child
  finally:
    child.kill()
    child.wait()


def address(state):
  return (pathlib.Path(state) / "address").read_text().strip()


def wait_for_peer(swarm, loop):
  while swarm.peers == 0 or swarm.metrics()["swarm/exchanges"] < 3:
    swarm.step(loop.step(), BATCH)


def call(folder):
  loop = Loop("2 M")
  with starling.join(loop.model, loop.optimizer, state=folder, local_steps=10**6, **ALONE) as swarm:
    taken = []
    for _ in range(20000):
      began = time.perf_counter()
      swarm.step(0.1, 1)
      taken.append(time.perf_counter() - began)
  print(f"  step() within a round             {1e6 * statistics.median(taken):.1f} us (goal <= 5)")


def costs(folder):
  joined, plain = Loop("2 M"), Loop("2 M")
  with starling.join(joined.model, joined.optimizer, state=folder, local_steps=8, **ALONE) as swarm:
    ratio = overhead(swarm, joined, plain, time.process_time)
    print(f"  2 M, 8 local steps, alone: CPU    {ratio} (goal <= 3)")
    with other("peer", address(folder), "2 M"):
      wait_for_peer(swarm, joined)
      ratio = overhead(swarm, joined, plain, time.perf_counter)
    print(f"  the same with a peer: time        {ratio} (goal <= 5)")


def boundary(folder):
  loop = Loop("10 M")
  settings = {"local_steps": 4, "exchange": {"overlap": "on"}}
  joined = starling.join(loop.model, loop.optimizer, state=folder, **settings, **ALONE)
  with joined as swarm, other("peer", address(folder), "10 M"):
    wait_for_peer(swarm, loop)
    taken = []
    while len(taken) < 40:
      loss, round_before = loop.step(), swarm.metrics()["swarm/round"]
      began = time.perf_counter()
      swarm.step(loss, BATCH)
      ended = time.perf_counter()
      if swarm.metrics()["swarm/round"] != round_before:
        taken.append(1e3 * (ended - began))
  print(f"  10 M, a boundary with a peer      {statistics.median(taken):.1f} ms (goal <= 15)")


def join_ms(**arguments):
  loop = Loop("10 M")
  began = time.perf_counter()
  swarm = starling.join(loop.model, loop.optimizer, **arguments)
  taken = 1e3 * (time.perf_counter() - began)
  swarm.close()
  return taken


def joins(folder):
  founder = statistics.median(join_ms(state=f"{folder}-{number}", **ALONE) for number in range(5))
  print(f"  10 M, join of a founder           {founder:.0f} ms (goal <= 150)")
  with other("found", folder, "10 M") as child:
    while not (pathlib.Path(folder) / "address").exists():
      if child.poll() is not None:
        raise SystemExit("the founder has ended")
      time.sleep(0.1)
    time.sleep(5)  # it trains
    at = {"bootstrap": address(folder), "listen": "127.0.0.1:0"}
    newcomer = statistics.median(join_ms(state=f"{folder}-n{number}", **at) for number in range(5))
  print(f"  10 M, join of a newcomer          {newcomer:.0f} ms (goal <= 150, plus transfer)")


def memory(folder):
  loop = Loop("10 M")
  for _ in range(3):
    loop.step()
  before = resident()
  joined = starling.join(loop.model, loop.optimizer, state=folder, local_steps=1, **ALONE)
  with joined as swarm, other("peer", address(folder), "10 M"):
    wait_for_peer(swarm, loop)
    for _ in range(50):
      swarm.step(loop.step(), BATCH)
    beyond = (resident() - before) / bytes_of(loop.model)
  print(f"  10 M in pairs, memory beyond      {beyond:.2f} of the model's bytes (goal <= 1.5)")


def train(role, where, size):
  loop = Loop(size, 2)
  with tempfile.TemporaryDirectory() as folder:
    place = {"state": folder, "listen": "127.0.0.1:0", "bootstrap": where}
    if role == "found":
      place = {"state": where, "local_steps": 1, **ALONE}
    swarm = starling.join(loop.model, loop.optimizer, **place)
    while swarm.step(loop.step(), BATCH):
      pass


def main():
  torch.set_num_threads(1)
  if len(sys.argv) > 1:
    return train(*sys.argv[1:])
  print(f"attach: PyTorch {torch.__version__}, one thread, AdamW, batch {BATCH}; {PAIRS} pairs of {BURST} steps")
  for part in (call, costs, boundary, joins, memory):
    with tempfile.TemporaryDirectory() as folder:
      part(f"{folder}/state")


main()
