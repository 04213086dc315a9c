"""How much doubt is warranted, and which kinds of uncertainty come near it.

kinds      every kind: a small function and a row of `KINDS`
layers     posteriors over more layers than the last
answers    the answers of one network under one kind, at each of its strengths, and their file
scores     all that can be asked in a world, scored against its exact beliefs
reversal_scores   the same of reversals, beside the best constant and a counting learner
learners   answers that need no network: ½, the best constant, learners of the same sentences
frontier   tables: scores of every kind and strength, of learners and of ensembles of networks
registration  the comparison that was registered before its results, and its judgement
run        `compare_uncertainty`, behind `equivocal doubt`

`learn` is that of the core (`equivocal.world.learning`), imported when first used.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from equivocal.world.learning import learn

__all__ = ["learn"]


def __getattr__(name: str) -> Any:
    return import_name("equivocal", {"learn": "world.learning"}, name)
