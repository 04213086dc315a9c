"""The server described to its clients: its world for the page, its API as OpenAPI 3.1.

The description of the API is the file `openapi.json`; the tests compare answers with it.
"""

import json
from dataclasses import asdict
from importlib import resources
from typing import Any

import numpy as np

from equivocal import __version__
from equivocal.asking import CONVERGED, Comprehender
from equivocal.asking.examples import find_examples
from equivocal.web.questions import MOST_CHARACTERS
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.spelling import inflect_verb

PAPER_STEP = 17  # "τ = 17 discrete time-steps", §3


def describe_api(comprehender: Comprehender) -> dict[str, Any]:
    """Return the OpenAPI description, with the choices that this comprehender offers."""
    text = (resources.files("equivocal.web") / "openapi.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    content["info"]["version"] = __version__
    parameters, settings = content["components"]["parameters"], comprehender.settings
    parameters["prior_variance"]["schema"]["enum"] = list(settings.prior_variances)
    parameters["step"]["schema"]["enum"] = [*settings.kept_steps, CONVERGED]
    return content


def describe_world(comprehender: Comprehender) -> dict[str, Any]:
    """Return the answer to `/api/world`."""
    world, settings = comprehender.world, comprehender.settings
    times = {f"{v:g}": comprehender.get_times(v) for v in settings.prior_variances}
    return {
        "name": world.name,
        "description": world.file.description,
        "network": comprehender.source.name,
        "roles": list(world.roles),
        "classes": _list_classes(world),
        "examples": [asdict(example) for example in find_examples(world)],
        "prior_variances": list(settings.prior_variances),
        "prior_variance": settings.prior_variance,
        "steps": [
            {"step": step, "times": {name: values[at] for name, values in times.items()}}
            for at, step in enumerate(settings.kept_steps)
        ],
        "paper_step": PAPER_STEP,
        "limits": {"characters": MOST_CHARACTERS},
    }


def _list_classes(world: World) -> dict[str, list[str]]:
    """List the words of each class as they are said: verbs inflected, the others with markers."""
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
