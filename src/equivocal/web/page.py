"""The page as one file that answers by itself: worlds and their networks, put into a bundle.

The scripts of `static/` read what is embedded here as JSON: spellings, word order and truth
(`parsing.js`), networks (`tensors.js`). When you add a key to an object here, make the script named
beside it read the key.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from equivocal.asking import Comprehender, Source, summary
from equivocal.asking.answer import NOTABLE, TOP
from equivocal.asking.comprehender import MOST_WORDS
from equivocal.asking.shipped import list_shipped
from equivocal.asking.vocabulary import Vocabulary
from equivocal.errors import UserError, join_names
from equivocal.web.bundle import bundle_page
from equivocal.web.description import describe_world
from equivocal.web.schemas import MOST_CHARACTERS
from equivocal.world import World

__all__ = ["build_page"]

# the 91 printable characters that JSON in HTML need not escape; 13 bits are two of them, 91² > 2¹³
ALPHABET = np.array([code for code in range(33, 127) if chr(code) not in '"\\<'], np.uint8)
BITS = 13
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


def pack_bytes(content: bytes) -> dict[str, Any]:
    """Return bytes as text, deflated: 15 % longer than the networks' files, where base64 is 33 %.

    Returns
    -------
    dict
        The `text`, which `unpack` of `tensors.js` reads, and the `size` of the content.
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(content) + deflate.flush()
    return {"size": len(content), "text": _write_digits(packed)}


def _write_digits(content: bytes) -> str:
    """Write 13 bits as two characters.

    >>> _write_digits(bytes(13)) == "!" * 16
    True
    """
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    groups = np.zeros((-(-len(bits) // BITS), 16), np.uint8)  # BITS of 16, big end first
    padded = np.zeros(len(groups) * BITS, np.uint8)
    padded[: len(bits)] = bits
    groups[:, 16 - BITS :] = padded.reshape(-1, BITS)
    values = np.packbits(groups, axis=1).view(">u2").ravel()
    pairs = np.stack(np.divmod(values, len(ALPHABET)), axis=1)
    return str(ALPHABET[pairs].tobytes(), "ascii")


def describe_grammar(world: World) -> dict[str, Any]:
    """Return the spellings of a world and the order of its constructions, for `parsing.js`."""
    grammar, words = world.grammar, np.arange(len(world.lexicon.words), dtype=np.int32)
    spellings = world.list_spellings()
    return {
        "name": world.name,
        "tokens": list(world.tokens),
        "spellings": spellings.words,
        "markers": spellings.markers,
        "usual": {marker: sorted(usual) for marker, usual in spellings.usual_words.items()},
        "limits": {
            "words": MOST_WORDS,
            "characters": MOST_CHARACTERS,
            "phrase": spellings.longest,
        },
        "actions": sorted(grammar.collect_fillers(grammar.action_role)),
        "constructions": [
            {
                "order": list(construction.order),
                "required": [bool(share == 1) for share in construction.mentioned],
                "markers": [
                    construction.find_markers(role, words).tolist()
                    for role in range(len(world.roles))
                ],
                "action": grammar.action_role,
            }
            for construction in grammar.plain_constructions
        ],
    }


def describe_vocabulary(world: World) -> dict[str, Any]:
    """Return the words that answer each role."""
    vocabulary = Vocabulary.from_world(world)
    return {
        "fillers": list(vocabulary.fillers),
        "places": vocabulary.places.tolist(),
        "participants": list(vocabulary.participants),
        "verbs": vocabulary.verbs,
        "candidates": [np.flatnonzero(row).tolist() for row in vocabulary.candidates],
    }


def describe_truth(world: World) -> dict[str, Any] | None:
    """Return the exact beliefs after every sentence prefix, or None where unknown.

    Returns
    -------
    dict or None
        `next` maps "node word marker" to the node after that constituent, from node -1; `beliefs`
        has for each node, by role, a flat list of filler, probability, filler, probability, ….
    """
    if not world.is_exact:
        return None
    everything, units = world.all_derivations, Vocabulary.from_world(world).units
    tree, queries = everything.tree, everything.queries
    heard = zip(tree.parent.tolist(), tree.tokens.tolist(), strict=True)
    beliefs: list[dict[str, list[float]]] = [{} for _ in tree.parent]
    asked = np.flatnonzero(queries.find_role_probes())
    targets = queries.targets()[asked][:, units]
    for row, pair in zip(targets, asked, strict=True):
        flat: list[float] = []
        for filler in np.flatnonzero(row).tolist():
            flat += [filler, float(row[filler])]
        beliefs[queries.node[pair]][str(queries.probe[pair])] = flat
    return {
        "next": {
            f"{parent} {word} {marker}": node for node, (parent, (word, marker)) in enumerate(heard)
        },
        "beliefs": beliefs,
    }
