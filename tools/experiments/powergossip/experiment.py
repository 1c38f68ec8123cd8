"""Pairs that exchange a low-rank product of their difference, beside modulo4 with fragments at equal bytes: a model in
numpy, no part of the program. What is measured stands in expected.md."""
import functools
import importlib
import pathlib
import statistics

from counting import interval95
from lib import table

ROOT = pathlib.Path(__file__).resolve().parents[3]
AGENTS, SIDE, NOISE, LAST = 8, 64, 0.5, 100   # of the quadratics: rows and columns, of gradients, steps looked at
HIDDEN, BATCH, BLOCK = 64, 16, 256
STEPS = {"quadratics": 400, "digits": 600}
TRIAL, SEEDS = 101, 5
RATES = [0.01 * 3 ** i for i in range(-2, 6)]
RANKS = (1, 2)


@functools.cache
def numpy():
    try:
        return importlib.import_module("numpy")
    except ImportError:
        raise SystemExit("powergossip: needs numpy: pip install numpy, in a virtual environment") from None


class Pairing:
    """Models are lists of arrays; those with one dimension are averaged whole. `energy`: shares that were removed."""

    def __init__(self, way, rng):
        self.way, self.rng, self.energy = way, rng, []
        self.places = [0] * AGENTS

    def exchange(self, models, i, j):
        np, kind = numpy(), self.way[0]
        if kind == "none":
            return
        pairs = [(a, b) for a, b in zip(models[i], models[j])]
        before = sum(float(((b - a) ** 2).sum()) for a, b in pairs if a.ndim == 2)
        left = self.budget(pairs)
        at, total = self.places[i], sum(a.size for a, _ in pairs if a.ndim == 2)
        removed = 0.0
        offset = 0
        for a, b in pairs:
            difference = b - a
            if a.ndim == 1 or kind == "whole":
                delta = difference
            elif kind == "powergossip":
                delta = self.low_rank(difference)
            else:
                delta = self.fragment(difference, offset, at, left, total)
                offset += a.size
            a += delta / 2
            b -= delta / 2
            if a.ndim == 2:
                removed += float((difference ** 2).sum() - ((difference - delta) ** 2).sum())
        self.places[i] = (at + left) % total
        self.energy.append(removed / before if before > 0 else 1.0)

    def budget(self, pairs):
        """How many elements' four bits take the bytes of so many ranks, two bytes a number."""
        rank = self.way[1] if len(self.way) > 1 else 0
        return sum(4 * rank * sum(a.shape) for a, _ in pairs if a.ndim == 2)

    def low_rank(self, difference):
        np = numpy()
        q = self.rng.standard_normal((difference.shape[1], self.way[1]))
        p, _ = np.linalg.qr(difference @ q)
        return p @ (difference.T @ p).T

    def fragment(self, difference, offset, at, count, total):
        """Of elements at to at + count of all matrices, from the beginning again, those of this one."""
        np = numpy()
        place = (np.arange(offset, offset + difference.size) - at) % total < count
        flat = difference.ravel()
        delta = np.zeros(difference.size)
        chosen = np.flatnonzero(place)
        for begin in range(0, chosen.size, BLOCK):
            block = chosen[begin:begin + BLOCK]
            largest = np.abs(flat[block]).max()
            if largest > 0:
                step = 2.0 ** np.ceil(np.log2(largest / 7))
                delta[block] = step * np.floor(flat[block] / step + self.rng.random(block.size))
        return delta.reshape(difference.shape)

    def all_pairs(self, models):
        order = self.rng.permutation(AGENTS)
        for i, j in zip(order[::2], order[1::2]):
            self.exchange(models, i, j)


def quadratics(way, rate, seed, own_rank):
    """The mean of f over agents above the optimum, over the last steps."""
    np = numpy()
    rng = np.random.default_rng(seed)
    if own_rank == SIDE:
        own = rng.standard_normal((AGENTS, SIDE, SIDE)) / SIDE
    else:
        own = np.stack([np.outer(rng.standard_normal(SIDE), rng.standard_normal(SIDE)) / SIDE for _ in range(AGENTS)])
    goals = rng.standard_normal((SIDE, SIDE)) / SIDE + own
    optimum = goals.mean(axis=0)
    models = [[np.zeros((SIDE, SIDE))] for _ in range(AGENTS)]
    pairing, found = Pairing(way, rng), []
    for step in range(STEPS["quadratics"]):
        for agent in range(AGENTS):
            noise = NOISE * rng.standard_normal((SIDE, SIDE)) / SIDE
            models[agent][0] -= rate * (models[agent][0] - goals[agent] + noise)
        pairing.all_pairs(models)
        if step >= STEPS["quadratics"] - LAST:
            found.append(np.mean([((x[0] - optimum) ** 2).sum() / 2 for x in models]))
    return {"loss": float(np.mean(found)), "energy": float(np.mean(pairing.energy or [0]))}


@functools.cache
def digits():
    np = numpy()
    folder = ROOT / "build/data/digits"

    def read(name, header):
        return np.frombuffer((folder / name).read_bytes()[header:], np.uint8)
    parts = []
    for which in ("train", "t10k"):
        labels = read(f"{which}-labels-idx1-ubyte", 8).astype(int)
        parts.append((read(f"{which}-images-idx3-ubyte", 16).reshape(len(labels), 784) / 255.0, labels))
    return parts


def logits(model, x):
    np = numpy()
    hidden = np.maximum(x @ model[0] + model[1], 0)
    return hidden, hidden @ model[2] + model[3]


def softmax(scores):
    np = numpy()
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def sgd_step(model, x, labels, rate):
    np = numpy()
    hidden, scores = logits(model, x)
    wrong = softmax(scores)
    wrong[np.arange(len(labels)), labels] -= 1
    wrong /= len(labels)
    back = (wrong @ model[2].T) * (hidden > 0)
    for values, gradient in zip(model, (x.T @ back, back.sum(axis=0), hidden.T @ wrong, wrong.sum(axis=0))):
        values -= rate * gradient


def mlp(way, rate, seed):
    """Accuracy and loss on the test images, mean over the agents' own models."""
    np = numpy()
    rng = np.random.default_rng(seed)
    (images, labels), (test_images, test_labels) = digits()
    shards = np.array_split(np.argsort(labels, kind="stable"), AGENTS)   # by label
    first = [rng.standard_normal((784, HIDDEN)) * (2 / 784) ** 0.5, np.zeros(HIDDEN),
             rng.standard_normal((HIDDEN, 10)) * (1 / HIDDEN) ** 0.5, np.zeros(10)]
    models = [[values.copy() for values in first] for _ in range(AGENTS)]
    pairing = Pairing(way, rng)
    for _ in range(STEPS["digits"]):
        for agent, shard in enumerate(shards):
            batch = shard[rng.integers(len(shard), size=BATCH)]
            sgd_step(models[agent], images[batch], labels[batch], rate)
        pairing.all_pairs(models)
    accuracy, loss = [], []
    for model in models:
        _, scores = logits(model, test_images)
        accuracy.append(float((scores.argmax(axis=1) == test_labels).mean()))
        shares = softmax(scores)[np.arange(len(test_labels)), test_labels]
        loss.append(float(-np.log(np.maximum(shares, 1e-30)).mean()))
    return {"accuracy": statistics.mean(accuracy), "loss": statistics.mean(loss),
            "energy": float(np.mean(pairing.energy or [0]))}


def best_rate(measure):
    """The rate with the least loss on the trial's seed: a worse one lies on either side, or the list ends."""
    losses = {}

    def loss(i):
        if i not in losses:
            found = measure(RATES[i], TRIAL)["loss"]
            losses[i] = found if found == found else float("inf")
        return losses[i]
    at = 3
    while True:
        better = min((i for i in (at - 1, at, at + 1) if 0 <= i < len(RATES)), key=loss)
        if better == at:
            return RATES[at]
        at = better


WAYS = {"whole average": ("whole",), "no exchange": ("none",),
        **{name.format(rank): (kind, rank) for rank in RANKS
           for kind, name in (("powergossip", "powergossip, rank {}"),
                              ("modulo4", "modulo4 x fragments, bytes of rank {}"))}}


def plus_minus(values, scale=1.0, digits_shown=3):
    mean, half = interval95(values)
    return f"{scale * mean:.{digits_shown}f} ± {scale * half:.{digits_shown}f}"


def problem_table(title, measure, seeds, figures, say):
    rows, found = [], {}
    for name, way in WAYS.items():
        rate = best_rate(lambda rate, seed: measure(way, rate, seed))
        found[name] = [measure(way, rate, seed) for seed in seeds]
        rows.append([name, f"{rate:.2g}", *(plus_minus([run[key] for run in found[name]], scale, shown)
                                            for key, _, scale, shown in figures)])
        say(f"{title}: {rows[-1]}")
    for rank in RANKS:
        ours, theirs = found[f"powergossip, rank {rank}"], found[f"modulo4 x fragments, bytes of rank {rank}"]
        differences = {key: [a[key] - b[key] for a, b in zip(ours, theirs)] for key, *_ in figures}
        rows.append([f"rank {rank} minus modulo4", "",
                     *(plus_minus(differences[key], scale, shown) for key, _, scale, shown in figures)])
    return f"**{title}**\n\n" + table(["way", "rate", *(head for _, head, _, _ in figures)], rows)


def run(repeat, quick, say):
    seeds = range(1, (2 if quick else SEEDS * repeat) + 1)
    energy = ("energy", "energy removed, %", 100, 1)
    parts = []
    for own in (SIDE, 1):
        measure = functools.partial(quadratics, own_rank=own)
        parts.append(problem_table(f"Quadratics, what is an agent's own has rank {own}", measure, seeds,
                                   [("loss", "loss above the optimum, x 1000", 1000, 2), energy], say))
    parts.append(problem_table("Digits by label", mlp, seeds,
                               [("accuracy", "accuracy, %", 100, 1), ("loss", "loss", 1, 3), energy], say))
    return "\n\n".join(parts)
