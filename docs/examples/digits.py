"""Digits: a classifier that was shown 0 to 4 meets 5 to 9, and noise.

A Bayesian softmax regression on 300 random Fourier features of 8 × 8 images. The mutual information
between class and weights should be small for digits of the known kinds and large for anything else.
The script prints how well this separates known from unknown images, compared with two other scores,
as AUROC (1 is perfect, 0.5 is chance). Needs scikit-learn: pip install "lastlayer[sklearn]".

    python docs/examples/digits.py [picture.png]
"""
# ruff: noqa: T201

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from equivocal.figure_style import COLOURS, apply_style
from lastlayer import LastLayer

PICTURE = Path(__file__).parents[1] / "images" / "digits.png"
NUM_TRAIN, NUM_NOISE, NUM_FEATURES = 600, 300, 300
LENGTH, AMPLITUDE = 3.0, 5.0  # of the functions that the prior draws
SHOWN = 6  # images in each row of the picture


class FourierFeatures:
    """Random Fourier features: with normal weights their sum is nearly a Gaussian process."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.frequency = rng.normal(size=(64, NUM_FEATURES)) / LENGTH
        self.phase = rng.uniform(0, 2 * np.pi, NUM_FEATURES)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Return features of shape (N, 300); float32 is enough here."""
        waves = np.cos(images @ self.frequency + self.phase)
        return (AMPLITUDE * np.sqrt(2 / NUM_FEATURES) * waves).astype(np.float32)


def compute_top_probability(belief: LastLayer, images: np.ndarray) -> np.ndarray:
    """Return the largest class probability of a softmax with the mean weights."""
    logits = belief.features(images) @ belief.posterior.mean.T
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return 1 / odds.sum(axis=1)


def score_novelty(belief: LastLayer, images: np.ndarray) -> dict[str, np.ndarray]:
    """Return three scores per image that should be large if it is unlike the training set."""
    entropies = belief.predict(images).entropies
    return {
        "mutual information": entropies.information[:, 0],
        "total entropy": entropies.total[:, 0],
        "1 − top probability of the mean weights": 1 - compute_top_probability(belief, images),
    }


def draw(kinds: dict[str, np.ndarray], information: dict[str, np.ndarray]) -> Figure:
    """Draw histograms, and a few images of each kind with their mutual information."""
    with apply_style():
        figure = Figure(figsize=(7.2, 2.9))
        left, right = figure.subfigures(1, 2, width_ratios=[1, 1.05])
        axes = left.subplots()
        bins = np.linspace(0, max(map(np.max, information.values())), 31)
        for (name, values), colour in zip(information.items(), COLOURS, strict=False):
            weights = np.full(len(values), 100 / len(values))
            axes.hist(values, bins, weights=weights, color=colour, alpha=0.35)
            axes.hist(values, bins, weights=weights, color=colour, histtype="step", label=name)
        axes.set(xlabel="mutual information (nats)", ylabel="share of images (%)", xlim=(0, None))
        axes.legend()
        rows = right.subfigures(len(kinds))
        for row, (name, images), colour in zip(rows, kinds.items(), COLOURS, strict=False):
            row.suptitle(name, x=0.02, ha="left", fontsize=9, color=colour)
            cells = row.subplots(1, SHOWN)
            for cell, image, value in zip(cells, images, information[name], strict=False):
                cell.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
                cell.set(xticks=[], yticks=[])
                cell.spines[:].set(visible=True, color=colour)
                cell.set_xlabel(f"{value:.2f}", color=colour, labelpad=2)
    return figure


def main(picture: Path) -> None:
    """Fit the posterior, compare the scores and draw the picture."""
    rng = np.random.default_rng(0)
    images, digit = load_digits(return_X_y=True)
    images = images / 16
    known = rng.permutation(np.flatnonzero(digit < 5))
    train, test = known[:NUM_TRAIN], known[NUM_TRAIN:]
    belief = LastLayer.fit(
        FourierFeatures(rng), (images[train], digit[train]), likelihood="softmax"
    )
    print(belief)
    kinds = {
        "digits 0–4, held out": images[test],
        "digits 5–9, never seen": rng.permutation(images[digit >= 5]),
        "noise": rng.uniform(size=(NUM_NOISE, 64)),
    }
    right = belief.predict(images[test]).probability.argmax(axis=1) == digit[test]
    print(f"{right.mean():.1%} of {len(test)} held-out digits 0–4 are named rightly")
    found = {name: score_novelty(belief, some) for name, some in kinds.items()}
    usual, *strange = found
    for name in strange:
        for measure, values in found[name].items():
            both = np.concatenate([found[usual][measure], values])
            foreign = np.arange(len(both)) >= len(test)
            print(f"AUROC {roc_auc_score(foreign, both):.3f}  {name}, by {measure}")
    draw(kinds, {name: some["mutual information"] for name, some in found.items()}).savefig(picture)
    print(f"wrote {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
