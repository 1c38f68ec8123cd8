"""Helpers for experiments on virtual time: `starling simulate`, whose results do not depend on the machine's load."""

import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import tempfile

from lib import STARLING

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "build" / "data" / "digits"
CIFAR = os.environ.get("STARLING_CIFAR", "")  # the folder of CIFAR-10's binary files
CIFAR_RECORD = 1 + 3 * 32 * 32


def pairs_of_digits(name, steps):
  """A config: a perceptron on digits, whose params and momentum travel in pairs after every step."""
  return f"""
swarm:
  name: {name}
  model: {{kind: mlp, hidden: [32]}}
  optimizer: {{kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 0}}
  batch: 32
  local_steps: 1
  stop_after: {steps}
  exchange: {{kind: pairwise, codec: modulo8, share: [params, momentum], block: 2048, deadline_min: 20ms,
             deadline_max: 500ms}}
agent:
  threads: 1
"""


def simulate(config, agents, flags=(), **settings):
  """The summary of one run, and its rows of curve.csv. `settings`: keys of the config, dots as two underscores;
  without any, flags."""
  with tempfile.TemporaryDirectory(prefix="starling-simulated-") as scratch:
    path = pathlib.Path(scratch) / "swarm.yaml"
    path.write_text(config)
    command = [
      "nice",
      str(STARLING),
      "simulate",
      "--config",
      str(path),
      "--agents",
      str(agents),
      "--out",
      f"{scratch}/out",
      "--log-level",
      "error",
    ]
    for key, value in settings.items():
      is_key = "__" in key
      command += (
        ["--set", f"{key.replace('__', '.')}={value}"] if is_key else [f"--{key.replace('_', '-')}", str(value)]
      )
    done = subprocess.run([*command, *map(str, flags)], capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
      raise SystemExit(f"simulate: {done.stderr[-800:]}")
    out = pathlib.Path(scratch) / "out"
    with open(out / "curve.csv", newline="") as file:
      rows = list(csv.DictReader(file))
    return json.loads((out / "summary.json").read_text()), rows


def late_loss(rows, series, samples):
  """Mean test loss of a series over the last quarter before so many samples: one iterate alone is noise."""
  losses = [
    float(row["loss"]) for row in rows if row["series"] == series and 0.75 * samples <= float(row["samples"]) <= samples
  ]
  if len(losses) < 3:
    raise SystemExit(f"simulate: only {len(losses)} evaluations of {series} in the last quarter")
  return sum(losses) / len(losses)


def two_at_a_time(run, cases):
  """run(case) of each case, in order: virtual time does not see that the processors are shared."""
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    return list(pool.map(run, cases))


def data(cifar=""):
  """Photographs where they are asked for, else real handwritten digits where they are, else drawn ones; the tables
  say which."""
  return cifar or (str(DIGITS) if DIGITS.exists() else "generated")


def data_name(cifar=""):
  if cifar:
    size = sum(path.stat().st_size for path in pathlib.Path(cifar).glob("data_batch_?.bin"))
    return f"{size // CIFAR_RECORD:,} photographs (CIFAR-10)"
  return "5,000 handwritten digits (MNIST)" if DIGITS.exists() else "digits drawn by the program"
