"""s2_rivals on its thinnest link alone, with more steps.

Reading: Twice the steps bring no more runs to the goal. Every rival arrives in all eight runs. The rate was chosen on
a faster link, and is probably too high here.
"""

import importlib.util
import pathlib

import results

RIVALS = pathlib.Path(__file__).resolve().parent.parent / "s2_rivals"
LINK, STEPS = "10mbit", 480
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)  # as there


def load_rivals():
  spec = importlib.util.spec_from_file_location("s2_rivals", RIVALS / "experiment.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def rates():
  """By way, as s2_rivals chose them: rates are found on another link, whose steps are the same."""
  cells = [cell for cell in results.read("s2_rivals")["cells"] if (cell["table"], cell["what"]) == ("choice", "rate")]
  return {cell["setting"]["way"]: cell["value"] for cell in cells}


TABLES = [
  ("choice", ["way"]),
  ("10mbit", ["way"]),
  ("claims", ["link", "ours", "beside"]),
]


def run(repeat=1, quick=False, say=print):
  rivals = load_rivals()
  rivals.STEPS[LINK] = STEPS
  measured = rivals.Measured(quick, say, {LINK: rivals.LINKS[LINK]}, rates())
  return f"{STEPS} steps. " + rivals.print_all(measured)
