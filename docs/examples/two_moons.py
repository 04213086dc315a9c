"""Two moons: where a classifier is certain, where it is uncertain, and where it has no data.

A Bayesian logistic regression on 500 random Fourier features of 200 points in the plane. The left
picture shows the predictive probability, the right one the mutual information between a point's
class and the weights: what more data near that point would teach.

    python docs/examples/two_moons.py [picture.png]
"""
# ruff: noqa: T201

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.figure_style import COLOURS, apply_style
from lastlayer import LastLayer

PICTURE = Path(__file__).parents[1] / "images" / "two_moons.png"
NUM_POINTS, NUM_FEATURES = 200, 500
LENGTH, AMPLITUDE = 0.6, 5.0  # of the functions that the prior draws


def draw_moons(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy points on two interleaved half circles, with the number of the circle as label."""
    label = np.arange(NUM_POINTS) % 2
    angle = rng.uniform(0, np.pi, NUM_POINTS)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    return np.column_stack([x, y]) + 0.12 * rng.normal(size=(NUM_POINTS, 2)), label


class FourierFeatures:
    """Random Fourier features: with normal weights their sum is nearly a Gaussian process."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.frequency = rng.normal(size=(2, NUM_FEATURES)) / LENGTH
        self.phase = rng.uniform(0, 2 * np.pi, NUM_FEATURES)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return features of shape (N, 500)."""
        return AMPLITUDE * np.sqrt(2 / NUM_FEATURES) * np.cos(points @ self.frequency + self.phase)


def draw(belief: LastLayer, points: np.ndarray, label: np.ndarray) -> Figure:
    """Draw probability and mutual information over the plane."""
    x, y = np.linspace(-3, 4, 181), np.linspace(-2.5, 3, 151)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    shape = grid.shape[:2]
    out = belief.predict(grid.reshape(-1, 2))
    probability, information = out.probability.reshape(shape), out.information.reshape(shape)
    with apply_style():
        figure = Figure(figsize=(7.2, 2.75))
        left, right = figure.subplots(1, 2, sharey=True)
        filled = left.contourf(x, y, probability, np.linspace(0, 1, 21), cmap="RdBu")
        figure.colorbar(filled, label="P(lower moon)", ticks=np.linspace(0, 1, 5))
        filled = right.contourf(x, y, information, np.linspace(0, 0.6, 25), cmap="Greys")
        figure.colorbar(filled, label="mutual information (nats)", ticks=np.linspace(0, 0.6, 4))
        left.set_title("What it believes")
        right.set_title("What more data would teach it")
        for axes in (left, right):
            plot_points(axes, points, label)
        left.set_ylabel("$x_2$")
        right.legend(loc="upper left", handletextpad=0.1, frameon=True, framealpha=0.9)
    return figure


def plot_points(axes: Axes, points: np.ndarray, label: np.ndarray) -> None:
    """Plot the observed points."""
    for number, (name, colour) in enumerate((("upper", COLOURS[1]), ("lower", COLOURS[0]))):
        x, y = points[label == number].T
        axes.scatter(x, y, s=11, color=colour, edgecolor="white", lw=0.4, label=f"{name} moon")
    axes.set(xlabel="$x_1$")


def main(picture: Path) -> None:
    """Fit the posterior, print a few numbers and draw the picture."""
    rng = np.random.default_rng(0)
    points, label = draw_moons(rng)
    belief = LastLayer.fit(FourierFeatures(rng), (points, label), prior_variance=1.0)
    print(belief)
    for name, point in (("upper moon", (0, 1)), ("between", (0.5, 0.25)), ("far away", (-2.5, -2))):
        out = belief.predict(np.array([point]))
        low, high = (end.item() for end in out.interval())
        total, information = out.entropies.total.item(), out.information.item()
        print(
            f"{name:10}  P(lower) = {out.probability.item():.3f}, "
            f"90 % of it in {low:.3f} … {high:.3f}; "
            f"of {total:.2f} nats, {information:.2f} from the weights"
        )
    draw(belief, points, label).savefig(picture)
    print(f"wrote {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
