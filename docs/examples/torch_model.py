"""A PyTorch network: sure of itself far from anything it was trained on, and less so afterwards.

A network with two hidden layers of rectified units learns three clouds of points in the plane. Its
softmax is nearly 1 at any distance. A posterior over its last layer, read from the module as it is,
keeps the answers near the data and takes the certainty back elsewhere: logits and their spread grow
alike with the distance, so the probability stays away from 1 (Kristiadi, Hein and Hennig 2020,
arXiv:2002.10118). Needs PyTorch: pip install "equivocal[torch]".

    python docs/examples/torch_model.py [numbers.csv]
"""
# ruff: noqa: T201

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from equivocal.sampling.last_layer import from_torch

CENTRES = np.array([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
PER_CLASS, NUM_EPOCHS = 100, 300


def clouds(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points about three centres, and whose they are."""
    label = np.repeat(np.arange(3), PER_CLASS)
    points = CENTRES[label] + 0.9 * rng.normal(size=(len(label), 2))
    return torch.tensor(points, dtype=torch.float32), torch.tensor(label)


def trained(points: torch.Tensor, label: torch.Tensor) -> nn.Module:
    """An ordinary network, trained in an ordinary way; its last layer returns logits."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 3)
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(NUM_EPOCHS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(points), label).backward()
        optimiser.step()
    return network


def ring(radius: float) -> torch.Tensor:
    """Points in all directions at one distance."""
    angle = torch.linspace(0, 2 * np.pi, 361)[:-1]
    return radius * torch.stack([angle.cos(), angle.sin()], dim=1)


def main(table: Path | None) -> None:
    """Train, take the posterior, compare; the numbers go to a file where one is named."""
    rng = np.random.default_rng(0)
    network = trained(*clouds(rng))
    belief = from_torch(network, *clouds(rng))  # points that training has not seen
    print(belief)
    new, label = clouds(rng)
    places = {"new points": new} | {f"distance {r}": ring(r) for r in (5, 20, 100)}
    lines = ["where,network,posterior"]
    for where, points in places.items():
        with torch.no_grad():
            own = network(points).softmax(dim=1).numpy()
        ours = belief.predict_proba(points)
        lines.append(f"{where},{own.max(axis=1).mean():.3f},{ours.max(axis=1).mean():.3f}")
        if where == "new points":
            truth = label.numpy()
            for name, beliefs in (("network", own), ("posterior", ours)):
                right = (beliefs.argmax(axis=1) == truth).mean()
                loss = -np.log(beliefs[np.arange(len(truth)), truth]).mean()
                print(f"{name:9}  right {right:.1%}, cross-entropy {loss:.3f} on new points")
    print("mean probability of the favourite class")
    print("\n".join(" ".join(f"{cell:>12}" for cell in line.split(",")) for line in lines))
    if table is not None:
        table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
