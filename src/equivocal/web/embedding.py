"""What the page needs to answer by itself, as JSON has it: parser, word order, truth, networks.

The scripts of `static/` read it (`parsing.js`, `events.js`, `tensors.js`). Where an object here
gains a key, the script of the same subject reads it.
"""

import zlib
from typing import Any

import numpy as np

from equivocal.asking.comprehender import MOST_WORDS
from equivocal.asking.vocabulary import Vocabulary
from equivocal.web.schemas import MOST_CHARACTERS
from equivocal.world import World

__all__ = ["describe_grammar", "describe_truth", "describe_vocabulary", "pack_bytes"]

# the 91 printable characters that JSON in HTML need not escape; 13 bits are two of them, 91² > 2¹³
ALPHABET = np.array([code for code in range(33, 127) if chr(code) not in '"\\<'], np.uint8)
BITS = 13


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
