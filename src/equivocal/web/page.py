"""The page as one file that answers by itself: worlds and their networks, put into a bundle."""

import json
from collections.abc import Sequence
from typing import Any

from equivocal.asking import Comprehender, Source, summary
from equivocal.asking.answer import NOTABLE, TOP
from equivocal.asking.shipped import list_shipped
from equivocal.errors import UserError, join_names
from equivocal.web.bundle import bundle_page
from equivocal.web.description import describe_world
from equivocal.web.embedding import (
    describe_grammar,
    describe_truth,
    describe_vocabulary,
    pack_bytes,
)

__all__ = ["build_page"]

RULES = {
    "top": TOP,
    "notable": NOTABLE,
    "rival": summary.RIVAL,
    "early": summary.EARLY,
    "settled": summary.SETTLED,
    "tried": summary.TRIED,
    "width": summary.WIDTH,
}


def build_page(worlds: Sequence[str] | None = None) -> str:
    """Build the page of some worlds, each with the networks that come with the package.

    Parameters
    ----------
    worlds : sequence of str, optional
        Their names; all worlds that have networks unless given.

    Returns
    -------
    str
        HTML that needs nothing else.

    Raises
    ------
    UserError
        Where a world has no networks in the package.
    """
    names = dict.fromkeys(worlds or list_shipped())
    return bundle_page({"worlds": [_embed_world(name) for name in names], "rules": RULES})


def _embed_world(name: str) -> dict[str, Any]:
    """Return all that the page needs to answer in one world, as JSON has it."""
    source = Source.choose(world=name)
    if source.shipped is None:
        raise UserError(
            f"no networks of world {name!r} come with the package; choose from "
            f"{join_names(list_shipped())}, or use `equivocal serve --world {name}`."
        )
    world = source.world
    return {
        "description": describe_world(Comprehender(source)).model_dump(),
        "grammar": describe_grammar(world),
        "vocabulary": describe_vocabulary(world),
        "truth": pack_bytes(json.dumps(describe_truth(world)).encode()),
        "networks": pack_bytes(source.shipped.read_bytes()),
    }
