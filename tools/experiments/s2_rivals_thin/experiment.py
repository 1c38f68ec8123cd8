"""s2_rivals on its thinnest link alone, with more steps than its page was measured with."""
import importlib.util
import pathlib
import re

RIVALS = pathlib.Path(__file__).resolve().parent.parent / "s2_rivals"
LINK, STEPS = "10mbit", 480


def load_rivals():
    spec = importlib.util.spec_from_file_location("s2_rivals", RIVALS / "experiment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rates_of(page):
    """By way, from the page's table of the choice: rates are found on another link, whose steps are the same."""
    rows = re.findall(r"^\| ([^|]+) \| ([0-9.]+) \|", page.split("The choice:")[1].split("\n\n")[1], re.MULTILINE)
    return {name: float(rate) for name, rate in rows}


def run(repeat=1, quick=False, say=print):
    rivals = load_rivals()
    rivals.STEPS[LINK] = STEPS
    rates = rates_of((RIVALS / "result.md").read_text())
    measured = rivals.Measured(quick, say, {LINK: rivals.LINKS[LINK]}, rates)
    return f"{STEPS} steps. " + rivals.print_all(measured)
