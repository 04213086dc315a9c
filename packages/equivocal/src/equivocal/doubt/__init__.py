"""How much doubt is warranted, and which kinds of uncertainty come near it.

`learn` is that of the core (`equivocal.world.learning`), imported when first used.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from equivocal.world.learning import learn

__all__ = ["learn"]


def __getattr__(name: str) -> Any:
    return import_name("equivocal", {"learn": "world.learning"}, name)
