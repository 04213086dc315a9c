"""What a client may ask, and how it is told that it may not.

Everything that arrives is bounded here, before any work is done.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams

from equivocal.asking.answer import TOP
from equivocal.errors import UserError, did_you_mean, join_names

__all__ = ["MOST_CHARACTERS", "MOST_FILLERS", "ListQuestion", "Question", "read_question"]

MOST_CHARACTERS = 300
MOST_FILLERS = 20
MOST_STEPS = 1_000_000
RULES = {
    "sentence": f"text of 1 to {MOST_CHARACTERS} characters",
    "prior_variance": "a number, one of those that /api/world lists",
    "step": "a step that /api/world lists, or 'converged'",
    "top": f"a whole number from 1 to {MOST_FILLERS}",
}


class Question(BaseModel):
    """The query of `/api/comprehend.csv`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    sentence: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    prior_variance: float | None = None
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] | Literal["converged"] = "converged"


class ListQuestion(Question):
    """The query of `/api/comprehend`, which lists so many fillers of each role."""

    top: Annotated[int, Field(ge=1, le=MOST_FILLERS)] = TOP


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def read_question(kind: type[AnyQuestion], query: QueryParams) -> AnyQuestion:
    """A checked question, or one sentence about the first thing that is wrong with it."""
    given = dict(query.items())
    if len(given) != len(query.multi_items()):
        twice = [name for name in given if len(query.getlist(name)) > 1]
        raise UserError(f"{join_names(twice)[:80]} is given more than once; give it once.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise UserError(_explained(error, list(kind.model_fields))) from None


def _explained(error: ValidationError, known: list[str]) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(name[:40], known) or f"; parameters are {join_names(known)}."
        return f"unknown parameter {name[:40]!r}{hint}"
    if first["type"] == "missing":
        return f"{name} is missing; ask with /api/comprehend?sentence=the+woman+eats+pizza."
    return f"{name} must be {RULES[name]}."
