"""Weights for other values of parameters are those of the world loaded with them."""

import numpy as np
import pytest

from equivocal.world import Reweighting, World
from lastlayer.errors import UserError


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("both_ways", {"rare": 0.3, "exchange": 0.2, "insertion": 0.05}),
        ("slips", {"rare": 0.03, "slip": 0.1}),
    ],
)
def test_weights_are_those_of_the_loaded_world(name: str, values: dict[str, float]) -> None:
    found = Reweighting(World.load(name)).compute_weights(values)
    np.testing.assert_allclose(found, World.load(name, **values).all_derivations.weight, rtol=1e-9)


def test_values_at_the_ends_of_a_range_are_moved_inside() -> None:
    """Without noise its derivations would vanish; they stay, with next to no weight."""
    world = World.load("both_ways", exchange=0)
    reweighting = Reweighting(world)
    assert len(reweighting.world.all_derivations) > len(world.all_derivations)
    found = reweighting.compute_weights({"exchange": 0.0})
    assert found.sum() == pytest.approx(1)
    assert len(found) == len(reweighting.world.all_derivations)


def test_parameters_of_noise_are_told_from_those_of_events() -> None:
    found = Reweighting(World.load("both_ways")).noise_parameters
    assert found == ("exchange", "deletion", "insertion", "case")
    assert Reweighting(World.load("slips", slip=0)).noise_parameters == ("slip",)


def test_worlds_without_parameters_are_refused(paper: World) -> None:
    with pytest.raises(UserError, match="world 'paper' has no parameters to vary"):
        Reweighting(paper)


def test_noise_that_sums_above_one_is_refused() -> None:
    """A search over parameters skips values that raise a `UserError`, so it must be one."""
    text = World.load("both_ways").text.replace("most = 0.3", "most = 1.0")
    reweighting = Reweighting(World.from_toml(text))
    with pytest.raises(UserError, match=r"<text> \[noise\]: what may affect .* sums to 1\.[0-9]+"):
        reweighting.compute_weights({"exchange": 0.9, "deletion": 0.9})
