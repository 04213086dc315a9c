"""What the page needs to know of a world: words to click, examples, ensembles to choose from."""

from dataclasses import asdict
from typing import Any

import numpy as np

from equivocal.asking import Comprehender
from equivocal.asking.examples import examples_of
from equivocal.web.questions import MOST_CHARACTERS
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.spelling import inflect_verb

__all__ = ["world_facts"]

PAPER_STEP = 17  # "τ = 17 discrete time-steps", §3


def world_facts(comprehender: Comprehender) -> dict[str, Any]:
    """The answer to `/api/world`."""
    world = comprehender.world
    variances = comprehender.prior_variances
    times = {f"{variance:g}": comprehender.times(variance) for variance in variances}
    return {
        "name": world.name,
        "description": world.file.description,
        "network": comprehender.source.name,
        "roles": list(world.roles),
        "classes": _classes(world),
        "examples": [asdict(example) for example in examples_of(world)],
        "prior_variances": list(variances),
        "prior_variance": comprehender.source.settings.prior_variance,
        "steps": [
            {"step": step, "times": {name: values[at] for name, values in times.items()}}
            for at, step in enumerate(comprehender.steps)
        ],
        "paper_step": PAPER_STEP,
        "limits": {"characters": MOST_CHARACTERS},
    }


def _classes(world: World) -> dict[str, list[str]]:
    """Class → its words as they are said: verbs inflected, times and places with their marker."""
    construction = world.grammar.constructions[0]
    said: dict[str, str] = {}
    for role in construction.order:
        fillers = np.array(sorted(world.grammar.fillers_of(role)))
        for number, marker in zip(fillers, construction.marker_of(role, fillers), strict=True):
            word = world.lexicon.words[number]
            if role == world.grammar.action_role:
                said[word] = inflect_verb(word, construction.verb_form, world.file.verbs.get(word))
            elif marker != NO_FILLER:
                said[word] = f"{world.file.markers[world.tokens[marker]][0]} {word}"
    return {
        name: [said.get(word, word) for word in words] for name, words in world.file.words.items()
    }
