"""The API described for machines (OpenAPI 3.1); the tests hold the answers to it."""

from typing import Any

from equivocal import __version__
from equivocal.asking import CONVERGED, Comprehender
from equivocal.web.questions import MOST_CHARACTERS, MOST_FILLERS

__all__ = ["describe"]

PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}


def describe(comprehender: Comprehender) -> dict[str, Any]:
    """The description of a server that runs this comprehender."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Equivocal",
            "version": __version__,
            "description": "What a network and its ensemble believe, word by word.",
        },
        "paths": {
            "/api/health": _get("Whether the server is up.", _reference("Health")),
            "/api/world": _get("Words, examples, prior variances, steps.", _reference("World")),
            "/api/comprehend": _get(
                "What is believed after each word of a sentence.",
                _reference("Answer"),
                _parameters(comprehender),
            ),
            "/api/comprehend.csv": _get(
                "The same with every filler, as a table.",
                None,
                _parameters(comprehender),
            ),
            "/api/openapi.json": _get("This description.", {"type": "object"}),
        },
        "components": {"schemas": _schemas()},
    }


def _parameters(comprehender: Comprehender) -> list[dict[str, Any]]:
    schemas = {
        "sentence": {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS},
        "prior_variance": {
            "type": "number",
            "enum": list(comprehender.prior_variances),
            "default": 1.0,
        },
        "step": {"enum": [*comprehender.steps, CONVERGED], "default": CONVERGED},
        "top": {"type": "integer", "minimum": 1, "maximum": MOST_FILLERS, "default": 4},
    }
    return [
        {"name": name, "in": "query", "required": name == "sentence", "schema": schema}
        for name, schema in schemas.items()
    ]


def _get(
    summary: str,
    schema: dict[str, Any] | None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    good = {"text/csv": {}} if schema is None else {"application/json": {"schema": schema}}
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": good}}
    if parameters:
        error = {"application/json": {"schema": _reference("Error")}}
        responses["400"] = {"description": "What is wrong, in a sentence.", "content": error}
        responses["503"] = {"description": "It took too long.", "content": error}
    return {"get": {"summary": summary, "parameters": parameters or [], "responses": responses}}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _schemas() -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "number"}
    texts = {"type": "array", "items": text}
    belief = _object(
        filler=text,
        mle=PROBABILITY,
        bayes=PROBABILITY,
        low=PROBABILITY,
        high=PROBABILITY,
        truth={"type": ["number", "null"], "minimum": 0, "maximum": 1},
        said={"type": "boolean"},
    )
    not_negative = {"type": "number", "minimum": 0}
    word = _object(
        word=text,
        possible={"type": "boolean"},
        roles={
            "type": "object",
            "additionalProperties": {"type": "array", "items": _reference("Belief")},
        },
        semantic_update=not_negative,
        entropy=not_negative,
        epistemic=not_negative,
    )
    answer = _object(
        sentence=text,
        world=text,
        network=text,
        prior_variance=number,
        step={"type": ["integer", "string"]},
        time={"type": ["number", "null"]},
        words={"type": "array", "items": _reference("Word")},
        indicated={"type": "object", "additionalProperties": text},
        summary=text,
    )
    world = _object(
        name=text,
        roles=texts,
        classes={"type": "object", "additionalProperties": texts},
        examples={"type": "array", "items": {"type": "object"}},
        prior_variances={"type": "array", "items": number},
        steps={"type": "array", "items": {"type": "object"}},
    )
    return {
        "Answer": answer,
        "Belief": belief,
        "Error": _object(error=text),
        "Health": _object(status=text, world=text, version=text),
        "Word": word,
        "World": world,
    }
