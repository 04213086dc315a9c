"""How much doubt is warranted, and which kinds of uncertainty come near it.

kinds      every kind: a small function and a row of `KINDS`
layers     posteriors over more layers than the last
answers    the answers at each strength of a kind, and those of ½, the best constant and learners
scores     of reversals, beside the best constant and a learner, or of all that can be asked
frontier   tables: scores of every kind and strength, of learners and of ensembles of networks
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
