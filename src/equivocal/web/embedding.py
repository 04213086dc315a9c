"""What the page needs to answer by itself, as plain lists: parser, word order and exact truth.

The scripts of `static/` read it (`parsing.js`, `events.js`). Where an object here gains a key, the
script of the same subject reads it.
"""

from typing import Any

import numpy as np

from equivocal.asking.comprehender import MOST_WORDS
from equivocal.asking.vocabulary import Vocabulary
from equivocal.web.schemas import MOST_CHARACTERS
from equivocal.world import World

DIGITS = 12  # of an exact probability


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
    """Return the exact beliefs after every beginning of a sentence, or None where unknown.

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
            flat += [filler, round(float(row[filler]), DIGITS)]
        beliefs[queries.node[pair]][str(queries.probe[pair])] = flat
    return {
        "next": {
            f"{parent} {word} {marker}": node for node, (parent, (word, marker)) in enumerate(heard)
        },
        "beliefs": beliefs,
    }
