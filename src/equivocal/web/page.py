"""The page as one file that answers by itself: its worlds with their networks, put into a bundle."""

import base64
from collections.abc import Sequence
from typing import Any

from equivocal.asking import Comprehender, Source
from equivocal.web.bundle import bundle_page
from equivocal.web.description import describe_world
from equivocal.web.embedding import describe_grammar, describe_truth, describe_vocabulary

__all__ = ["build_page"]


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
    """
    return bundle_page({"worlds": [embed_world(name) for name in worlds or ("paper", "slips")]})


def embed_world(name: str) -> dict[str, Any]:
    """Return all that the page needs to answer in one world, as JSON has it."""
    raise NotImplementedError
