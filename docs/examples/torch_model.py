"""A PyTorch network is overconfident far from its training data; a posterior makes it less so.

A network with two hidden layers of rectified units learns to tell two clouds of points in the plane
apart. Far away it is certain in nearly every direction. A posterior over its last layer, computed
from the unchanged module, corrects this in part: far away, the logit and its standard deviation
grow in proportion to the distance, so the probability stays away from 0 and 1 (Kristiadi, Hein and
Hennig 2020, arXiv:2002.10118). Four posteriors are compared, the first three with prior variance 1:

    same points   the training points, about the trained weights: every point counts twice
    from zero     the training points, about zero: every point counts once
    fresh points  points that training has not seen, about the trained weights
    default       the training points; the prior is chosen by points that training has not seen

Needs PyTorch: pip install "lastlayer[torch]".

    python docs/examples/torch_model.py [numbers.csv]
"""
# ruff: noqa: T201

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lastlayer import LastLayer

CENTRES = np.array([[-1.0, -0.5], [1.0, 0.5]])
NUM_EPOCHS = 500

Belief = Callable[[torch.Tensor], np.ndarray]


def draw_clouds(rng: np.random.Generator, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw points around two centres, with the number of the centre as label."""
    label = np.arange(number) % 2
    points = CENTRES[label] + rng.normal(size=(number, 2))
    return torch.tensor(points, dtype=torch.float32), torch.tensor(label, dtype=torch.float32)


def train_network(points: torch.Tensor, label: torch.Tensor) -> nn.Module:
    """Train an ordinary network; its last layer returns logits."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 1)
    )
    loss = nn.BCEWithLogitsLoss()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.005)
    for _ in range(NUM_EPOCHS):
        optimiser.zero_grad()
        loss(network(points)[:, 0], label).backward()
        optimiser.step()
    return network


def make_ring(radius: float) -> torch.Tensor:
    """Return points in all directions at one distance from the origin."""
    angle = torch.linspace(0, 2 * np.pi, 361)[:-1]
    return radius * torch.stack([angle.cos(), angle.sin()], dim=1)


def measure(belief: Belief, points: torch.Tensor, label: torch.Tensor) -> dict[str, float]:
    """Measure accuracy, Brier score and confidence, which is from ½ (a coin) to 1 (certainty)."""
    p, t = belief(points), label.numpy()
    found = {"right": ((p > 0.5) == t).mean(), "Brier score": ((p - t) ** 2).mean()}
    places = {"new points": points} | {f"distance {r}": make_ring(r) for r in (5, 20, 100)}
    for where, some in places.items():
        found[f"sure at {where}"] = np.maximum(belief(some), 1 - belief(some)).mean()
    return found


def main(table: Path | None) -> None:
    """Train, compare the posteriors, and write the numbers to a file if one is named."""
    rng = np.random.default_rng(0)
    training, fresh, new = draw_clouds(rng, 200), draw_clouds(rng, 200), draw_clouds(rng, 2_000)
    network = train_network(*training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first two are given training points
        posteriors = {
            "same points": LastLayer.fit(network, training, prior_variance=1.0),
            "from zero": LastLayer.fit(network, training, prior_variance=1.0, prior_mean=0.0),
        }
    posteriors["fresh points"] = LastLayer.fit(network, fresh, prior_variance=1.0)
    posteriors["default"] = LastLayer.fit(network, training, validation=fresh)
    columns = {"network": measure(lambda x: network(x).sigmoid().detach().numpy()[:, 0], *new)}
    for name, belief in posteriors.items():
        print(f"{name}: {belief}")
        columns[name] = measure(lambda x, b=belief: b.predict(x).probability[:, 0], *new)
    lines = [["", *columns]]
    for row in columns["network"]:
        lines.append([row, *(f"{column[row]:.3f}" for column in columns.values())])
    for line in lines:
        print(f"{line[0]:20}" + "".join(f"{cell:>14}" for cell in line[1:]))
    if table is not None:
        table.write_text("\n".join(map(",".join, lines)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
