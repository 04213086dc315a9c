"""A PyTorch network: sure of itself far from anything it was trained on, and less so afterwards.

A network with two hidden layers of rectified units learns to tell two clouds of points in the plane
apart. Far away it is certain in nearly every direction. A posterior over its last layer, read from
the module as it is, takes some of that back: far away the logit and its spread grow alike with the
distance, so the probability stays away from 0 and 1 (Kristiadi, Hein and Hennig 2020,
arXiv:2002.10118). Four posteriors are compared, the first three with a prior variance of 1:

    same points   the training points, about the trained weights: every point counts twice
    from zero     the training points, about zero: every point counts once
    fresh points  points that training has not seen, about the trained weights
    default       the training points; the prior is chosen by points that training has not seen

Needs PyTorch: pip install "equivocal[torch]".

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

from equivocal.sampling.last_layer import from_torch

CENTRES = np.array([[-1.0, -0.5], [1.0, 0.5]])
NUM_EPOCHS = 500

Belief = Callable[[torch.Tensor], np.ndarray]


def clouds(rng: np.random.Generator, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points about two centres, and whose they are."""
    label = np.arange(number) % 2
    points = CENTRES[label] + rng.normal(size=(number, 2))
    return torch.tensor(points, dtype=torch.float32), torch.tensor(label, dtype=torch.float32)


def trained(points: torch.Tensor, label: torch.Tensor) -> nn.Module:
    """An ordinary network, trained in an ordinary way; its last layer returns logits."""
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


def ring(radius: float) -> torch.Tensor:
    """Points in all directions at one distance."""
    angle = torch.linspace(0, 2 * np.pi, 361)[:-1]
    return radius * torch.stack([angle.cos(), angle.sin()], dim=1)


def measures(belief: Belief, points: torch.Tensor, label: torch.Tensor) -> dict[str, float]:
    """How right and how sure: for sureness ½ is a coin and 1 is certainty."""
    p, t = belief(points), label.numpy()
    found = {"right": ((p > 0.5) == t).mean(), "Brier score": ((p - t) ** 2).mean()}
    places = {"new points": points} | {f"distance {r}": ring(r) for r in (5, 20, 100)}
    for where, some in places.items():
        found[f"sure at {where}"] = np.maximum(belief(some), 1 - belief(some)).mean()
    return found


def main(table: Path | None) -> None:
    """Train, take posteriors, compare; the numbers go to a file where one is named."""
    rng = np.random.default_rng(0)
    training, fresh, new = clouds(rng, 200), clouds(rng, 200), clouds(rng, 2_000)
    network = trained(*training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first two take points that the network knows
        posteriors = {
            "same points": from_torch(network, *training, prior_variance=1.0),
            "from zero": from_torch(network, *training, prior_variance=1.0, prior_mean=0.0),
        }
    posteriors["fresh points"] = from_torch(network, *fresh, prior_variance=1.0)
    posteriors["default"] = from_torch(network, *training, validation=fresh)
    columns = {"network": measures(lambda x: network(x).sigmoid().detach().numpy()[:, 0], *new)}
    for name, belief in posteriors.items():
        print(f"{name}: {belief}")
        columns[name] = measures(lambda x, b=belief: b.predict_proba(x)[:, 0], *new)
    lines = [["", *columns]]
    for row in columns["network"]:
        lines.append([row, *(f"{column[row]:.3f}" for column in columns.values())])
    for line in lines:
        print(f"{line[0]:20}" + "".join(f"{cell:>14}" for cell in line[1:]))
    if table is not None:
        table.write_text("\n".join(map(",".join, lines)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
