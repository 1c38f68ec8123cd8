"""Loss of a small VGG and an LSTM whose agents send 1 and .1 % of their gradients, against whole ones."""
import os
import pathlib
import statistics
import tempfile

from counting import interval95, plus_minus
from lib import table
from simulated import CIFAR, CIFAR_RECORD, late_loss, simulate, two_at_a_time

AGENTS, STEPS, BATCH, SEEDS, GOAL = 8, 600, 4, (1, 2, 3, 4, 5), 2   # the goal in percent
TEXT = os.environ.get("STARLING_TEXT", "")   # a file of plain ASCII, 300 KB and more
PHOTOGRAPHS, TEST_PHOTOGRAPHS, LETTERS, TEST_LETTERS = 9600, 1000, 4800 * 32 + 1, 500 * 32 + 1
MODELS = {"vgg": ("{kind: vgg, input: [3, 32, 32], classes: 10, channels: 8, hidden: [64]}", 0.1),
          "lstm": ("{kind: lstm, input: [1, 1, 32], classes: 128, hidden: [64, 64]}", 1)}
SENT = {"pipeline": "on", "merge": "auto", "reply": AGENTS}
WAYS = {"dense": {"codec": "fp32"},
        "1 %": {"codec": "topk", "density": 0.01, **SENT},
        ".1 %, warm-up": {"codec": "dgc", "density": 0.001, "momentum": 0, "warmup": 200, **SENT}}
CONFIG = """
swarm:
  name: converge
  model: %s
  optimizer: {kind: sgd, learning_rate: %g, momentum: 0}
  batch: %d
  weight: equal
  exchange: {kind: group, source: gradients, overlap: "off", deadline_min: 50ms, deadline_max: 500ms}
agent: {data: {sharding: iid}, threads: 1}
"""
FLAGS = ["--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "2.2", "--steps", STEPS]


def write_data(folder):
    """The parts of CIFAR-10 and of the text that are trained and judged on."""
    if not CIFAR or not TEXT:
        raise SystemExit("s2_converge: name CIFAR-10's folder in STARLING_CIFAR and a text in STARLING_TEXT")
    for name in MODELS:
        (folder / name).mkdir()
    photographs = (pathlib.Path(CIFAR) / "data_batch_1.bin").read_bytes()
    test = (pathlib.Path(CIFAR) / "test_batch.bin").read_bytes()
    (folder / "vgg" / "data_batch_1.bin").write_bytes(photographs[:PHOTOGRAPHS * CIFAR_RECORD])
    (folder / "vgg" / "test_batch.bin").write_bytes(test[:TEST_PHOTOGRAPHS * CIFAR_RECORD])
    text = pathlib.Path(TEXT).read_bytes()
    (folder / "lstm" / "train.txt").write_bytes(text[:LETTERS])
    (folder / "lstm" / "test.txt").write_bytes(text[-TEST_LETTERS:])


def loss(folder, model, way, seed):
    kind, rate = MODELS[model]
    settings = {f"swarm__exchange__update__{key}": value for key, value in WAYS[way].items()}
    _, rows = simulate(CONFIG % (kind, rate, BATCH), AGENTS, [*FLAGS, "--seed", seed],
                       agent__data__path=folder / model, **settings)
    return late_loss(rows, "mean", STEPS * BATCH * AGENTS)


def run(repeat=1, quick=False, say=print):
    seeds = SEEDS[:1] if quick else SEEDS
    cases = [(model, way, seed) for seed in seeds for model in MODELS for way in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        write_data(pathlib.Path(folder))

        def one(case):
            value = loss(pathlib.Path(folder), *case)
            say(f"{case}: {value:.4f}")
            return value
        found = dict(zip(cases, two_at_a_time(one, cases)))
    rows = []
    for model in MODELS:
        for way in WAYS:
            values = [found[model, way, seed] for seed in seeds]
            against = [100 * (found[model, way, seed] / found[model, "dense", seed] - 1) for seed in seeds]
            mean, half = interval95(against)
            rows.append([model, way, f"{statistics.mean(values):.4f}", "" if way == "dense" else plus_minus(mean, half),
                         "" if way == "dense" else "yes" if mean + half <= GOAL else "no"])
    return table(["network", "sent", "loss", "against dense", f"interval below +{GOAL} %"], rows)
