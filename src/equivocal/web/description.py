"""The API described for machines (OpenAPI 3.1); the tests hold the answers to it."""

from typing import Any

from equivocal import __version__
from equivocal.asking import CONVERGED, Comprehender
from equivocal.asking.answer import TOP
from equivocal.web.questions import MOST_CHARACTERS, MOST_FILLERS

__all__ = ["describe"]

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
FLAG = {"type": "boolean"}
NOT_NEGATIVE = {"type": "number", "minimum": 0}
PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}


def describe(comprehender: Comprehender) -> dict[str, Any]:
    """The description of a server that runs this comprehender."""
    asked = _parameters(comprehender)
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
                "What is believed after each word of a sentence.", _reference("Answer"), asked
            ),
            "/api/comprehend.csv": _get(
                "The same with every filler, as a table.",
                None,
                [parameter for parameter in asked if parameter["name"] != "top"],
            ),
            "/api/openapi.json": _get("This description.", {"type": "object"}),
        },
        "components": {
            "schemas": {
                "Answer": _answer(),
                "Belief": _belief(),
                "Error": _object(error=TEXT),
                "Health": _object(status=TEXT, world=TEXT, version=TEXT),
                "Word": _word(),
                "World": _world(),
            }
        },
    }


def _parameters(comprehender: Comprehender) -> list[dict[str, Any]]:
    settings = comprehender.source.settings
    schemas = {
        "sentence": {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS},
        "prior_variance": {
            "type": "number",
            "enum": list(comprehender.prior_variances),
            "default": settings.prior_variance,
        },
        "step": {"enum": [*comprehender.steps, CONVERGED], "default": CONVERGED},
        "top": {"type": "integer", "minimum": 1, "maximum": MOST_FILLERS, "default": TOP},
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
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _belief() -> dict[str, Any]:
    return _object(
        filler=TEXT,
        mle=PROBABILITY,
        bayes=PROBABILITY,
        low=PROBABILITY,
        high=PROBABILITY,
        truth={"type": ["number", "null"], "minimum": 0, "maximum": 1},
        said=FLAG,
    )


def _word() -> dict[str, Any]:
    return _object(
        word=TEXT,
        possible={"type": ["boolean", "null"]},
        roles=_map(_list(_reference("Belief"))),
        semantic_update=NOT_NEGATIVE,
        entropy=NOT_NEGATIVE,
        epistemic=NOT_NEGATIVE,
    )


def _answer() -> dict[str, Any]:
    return _object(
        sentence=TEXT,
        world=TEXT,
        network=TEXT,
        prior_variance=NUMBER,
        step={"type": ["integer", "string"]},
        time={"type": ["number", "null"]},
        words=_list(_reference("Word")),
        indicated=_map(TEXT),
        summary=TEXT,
    )


def _world() -> dict[str, Any]:
    maybe = {"type": ["string", "null"]}
    return _object(
        name=TEXT,
        description=TEXT,
        network=TEXT,
        roles=_list(TEXT),
        classes=_map(_list(TEXT)),
        examples=_list(_object(group=TEXT, label=TEXT, sentence=TEXT, compare=maybe)),
        prior_variances=_list(NUMBER),
        prior_variance=NUMBER,
        steps=_list(_object(step={"type": "integer"}, times=_map(NUMBER))),
        paper_step={"type": "integer"},
        limits=_object(characters={"type": "integer"}),
    )
