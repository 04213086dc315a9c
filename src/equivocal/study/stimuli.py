"""The stimuli of a study: items with a critical word and tracked units, in every condition.

    condition,item,sentence,critical_word,tracked_units
    congruent,dinner,"during dinner, the woman eats the pizza",eats,agent=woman; patient=pizza
    reversal,dinner,"during dinner, the pizza eats the woman",eats,agent=pizza; patient=woman

The first condition of the file is the baseline, whose readings are the plausible ones. The format,
which suites and constructions share, is that of `equivocal.world.items`.
"""

from pathlib import Path

from equivocal.world import World
from equivocal.world.items import MAX_BYTES, Item, Items, load_items

__all__ = ["MAX_BYTES", "Stimuli", "Stimulus", "load_stimuli"]

Stimuli = Items
Stimulus = Item


def load_stimuli(path: str | Path, world: World) -> Stimuli:
    """Load and check a stimulus file.

    Parameters
    ----------
    path : str or Path
        The CSV file; see `equivocal.world.items`.
    world : World
        Whose words and units it uses.

    Raises
    ------
    UserError
        For any mistake, with the file and the row.
    """
    return load_items(path, world, needs=("critical_word", "tracked_units"))
