"""Shared parts of training tests: a small request, rows of results, a classifier, recordings."""

import json
import time
import warnings
from dataclasses import asdict, replace

import numpy as np
import torch

from pefourier.errors import PefourierError
from pefourier.report import plot
from pefourier.train import ensembles, store
from pefourier.train.data.load import load_task
from pefourier.train.model import Transformer, load_injection
from pefourier.train.options import Options
from pefourier.train.request import Schedule
from pefourier.train.run import run_comparison
from pefourier.train.store import MEASURES, Row

SMALL = {
    "dataset": ("order:count=60,length=6",),
    "encoding": ("none", "sinusoidal", "t5", "order-free"),
    "seeds": 2,
    "steps": 8,
    "d": 8,
    "heads": 2,
    "batch_size": 8,
}


def small(**own):
    """Return the small request with options of its own."""
    return Options(**{**SMALL, **own})


def read_task(path, **settings):
    """Return the task of a dataset, read with options of its own."""
    return load_task(str(path), Options(**settings))


def train_aside(folder, *, resume=False, timeout=60, steps=SMALL["steps"], stop=False):
    """Run the small request without figures, as a process that a test starts."""
    plot.save = lambda *_: None
    if stop:  # in its first stack, until the process is killed
        ensembles.fit = lambda *_: [print("begun", flush=True), time.sleep(600)]
    warnings.simplefilter("error")
    store.TIMEOUT = float(timeout)
    own = {"out": str(folder), "resume": resume, "steps": steps}
    try:
        found = run_comparison(small(**own))
    except PefourierError as error:
        print(error)
        return 2
    print(found and len(found.runs))
    return 0


SIZES = Transformer(length=8, channels=2, classes=2, d=16, heads=2)
CPU = torch.device("cpu")
EPOCH = 6  # steps of an epoch


def epochs(number, rate=1e-3, patience=0, **own):
    """Return a schedule of this many epochs of six steps, evaluated after each epoch."""
    given = {"batch_size": 4, "rate": rate, "every": EPOCH, "patience": EPOCH * patience}
    return Schedule(steps=number * EPOCH, **{**given, **own})


def result(encoding, score, **own):
    """Return a row of results.jsonl whose measures are all `score`, except the given values."""
    row = {"dataset": "one", "encoding": encoding, "seed": 0, "fold": 0}
    row |= {"split": "blocks", "leaky": False, "length": 9, "seconds": 0.5}
    row |= {"windows": 12, "trained": 36, "confusion": [[6, 0], [0, 6]]}
    return row | dict.fromkeys(MEASURES, score) | own


def line(**own):
    """Return a complete row of results.jsonl whose measures are all 0.5."""
    facts = dict.fromkeys(("budget", "positive", "shortest"))
    facts |= {"uneven": False, "tested": []}
    facts |= {"step": 2, "device": "cpu", "time": "now"}
    return asdict(Row(**result("none", 0.5, **facts))) | own


def of_datasets(number, scores):
    """Return one run of each encoding, with its score, on each of several datasets."""
    return [result(e, v, dataset=f"set {i}") for i in range(number) for e, v in scores.items()]


def lines(folder):
    """Return the rows in a folder."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def numbers(rows):
    """Return the values that two runs of one request share."""
    names = ("dataset", "encoding", "seed", "fold", *MEASURES, "step")
    return [tuple(row[name] for name in names) for row in rows]


def injection(spec, seed=0, *, learn=False, sizes=SIZES, grid=()):
    """Return the injection of a SPEC into the small classifier, trained if `learn`."""
    one = load_injection(spec, sizes.tokens, sizes.d, sizes.heads, seed, grid=grid)
    return replace(one, learn=True) if learn else one


EVENTS = tuple((50 + 120 * i, 60 + 120 * i) for i in range(10))


def recording(rng, n=1200, channels=3, events=EVENTS):
    label = np.zeros(n, dtype=np.uint8)
    for first, last in events:
        label[first : last + 1] = 1
    train, test = rng.normal(size=(2, n, channels)).astype(np.float32)
    return train, test + 3 * label[:, None].astype(np.float32), label


def archives(folder, rng):
    folder.mkdir(parents=True)
    found = {name: recording(rng) for name in ("machine-1-1", "machine-1-2")}
    for name, parts in found.items():
        np.savez(folder / name, **dict(zip(("train", "test", "label"), parts, strict=True)))
    return found
