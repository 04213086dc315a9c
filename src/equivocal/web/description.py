"""The server described to its clients: its world for the page, its API as OpenAPI 3.1.

Schemas come from the models of `equivocal.web.schemas`; the tests compare answers with them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic.json_schema import models_json_schema

from equivocal import __version__
from equivocal.asking import CONVERGED, PAPER_STEP, Comprehender
from equivocal.asking.vocabulary import find_examples
from equivocal.web import schemas as api
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.spelling import inflect_verb

REFERENCE = "#/components/schemas/{model}"


def describe_api(comprehenders: Sequence[Comprehender]) -> dict[str, Any]:
    """Return the OpenAPI description of a server with these comprehenders, one for each world."""
    models: list[type[api.Message]] = [
        api.Answer,
        api.Error,
        api.Health,
        api.World,
        api.Worlds,
    ]
    _, schemas = models_json_schema(
        [(model, "serialization") for model in models], ref_template=REFERENCE
    )
    asked = (_describe_query(kind, comprehenders) for kind in (api.ListQuestion, api.Question))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Equivocal",
            "version": __version__,
            "description": "The beliefs of a network and its ensemble, word by word.",
        },
        "paths": {
            "/api/health": _describe_get("Whether the server is up.", api.Health),
            "/api/world": _describe_get("Words, examples, prior variances, steps.", api.World),
            "/api/worlds": _describe_get("The same for every world.", api.Worlds),
            "/api/comprehend": _describe_get("Beliefs after each word.", api.Answer, next(asked)),
            "/api/comprehend.csv": _describe_get("Beliefs in every filler.", None, next(asked)),
            "/api/openapi.json": _describe_get("This description.", dict),
        },
        "components": {"schemas": schemas["$defs"]},
    }


def _describe_query(
    kind: type[api.Question], comprehenders: Sequence[Comprehender]
) -> list[dict[str, Any]]:
    """Return the parameters of a question, with the choices that these comprehenders offer."""
    settings = comprehenders[0].settings
    worlds = [comprehender.world.name for comprehender in comprehenders]
    choices = {
        "world": {"type": "string", "enum": worlds, "default": worlds[0]},
        "prior_variance": {
            "type": "number",
            "enum": list(settings.prior_variances),
            "default": settings.prior_variance,
        },
        "step": {"enum": [*comprehenders[0].steps, CONVERGED], "default": PAPER_STEP},
    }
    schemas = kind.model_json_schema()["properties"] | choices
    return [
        {"name": name, "in": "query", "required": name == "sentence", "schema": schema}
        for name, schema in schemas.items()
    ]


def _describe_get(
    summary: str, answer: type | None, parameters: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Describe an operation that answers with a model, any object (`dict`) or a CSV table."""
    content = {"text/csv": {}} if answer is None else _describe_json(answer)
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": content}}
    if parameters:
        for status, reason in (("400", "A mistake in the request."), ("503", "It took too long.")):
            responses[status] = {"description": reason, "content": _describe_json(api.Error)}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": responses}}


def _describe_json(answer: type) -> dict[str, Any]:
    refers = {"$ref": REFERENCE.format(model=answer.__name__)}
    return {"application/json": {"schema": {"type": "object"} if answer is dict else refers}}


def describe_world(comprehender: Comprehender) -> api.World:
    """Return the answer to `/api/world`."""
    world, variances = comprehender.world, comprehender.settings.prior_variances
    times = {f"{variance:g}": comprehender.get_times(variance) for variance in variances}
    return api.World(
        name=world.name,
        description=world.file.description,
        network=comprehender.source.name,
        roles=list(world.roles),
        classes=_list_classes(world),
        examples=find_examples(world),
        prior_variances=list(variances),
        prior_variance=comprehender.settings.prior_variance,
        steps=[
            api.Step(step=step, times={name: values[at] for name, values in times.items()})
            for at, step in enumerate(comprehender.steps)
        ],
        paper_step=PAPER_STEP,
        limits={"characters": api.MOST_CHARACTERS},
    )


def _list_classes(world: World) -> dict[str, list[str]]:
    """List the words of each class as they are said: verbs inflected, the others with markers."""
    construction = world.grammar.constructions[0]
    said: dict[str, str] = {}
    for role in construction.order:
        fillers = np.array(sorted(world.grammar.collect_fillers(role)))
        for number, marker in zip(fillers, construction.find_markers(role, fillers), strict=True):
            word = world.lexicon.words[number]
            if role == world.grammar.action_role:
                said[word] = inflect_verb(word, construction.verb_form, world.file.verbs.get(word))
            elif marker != NO_FILLER:
                said[word] = f"{world.file.markers[world.tokens[marker]][0]} {word}"
    return {
        name: [said.get(word, word) for word in words] for name, words in world.file.words.items()
    }
