"""The same world without its noise: for listeners who take every sentence as it was meant."""

from equivocal.world.extending import format_world
from equivocal.world.loading import parse_whole_world
from equivocal.world.world import World

__all__ = ["remove_noise"]


def remove_noise(world: World) -> World:
    """Return a world in which every noise has the probability 0.

    Words and units are the same, so networks of the two can be compared unit by unit.

    >>> remove_noise(World.load("both_ways")).has_noise
    False
    """
    if not world.has_noise:
        return world
    raw = parse_whole_world(world.text, world.source)
    # a product, because a parameter that nothing uses would be an error
    noise = {
        name: {**table, "probability": f"0 * ({table['probability']})"}
        for name, table in raw["noise"].items()
    }
    return World.from_toml(format_world({**raw, "noise": noise}), world.source)
