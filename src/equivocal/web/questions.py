"""What a client may ask, and how it is told that it may not.

Everything that arrives is bounded here, before any work is done.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams

from equivocal.asking import CONVERGED
from equivocal.errors import UserError, did_you_mean, listed

__all__ = ["MOST_CHARACTERS", "MOST_FILLERS", "Question", "read_question"]

MOST_CHARACTERS = 300
MOST_FILLERS = 20
MOST_STEPS = 1_000_000


class Question(BaseModel):
    """The query of `/api/comprehend`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    sentence: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    prior_variance: float = 1.0
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] | Literal["converged"] = "converged"
    top: Annotated[int, Field(ge=1, le=MOST_FILLERS)] = 4


def read_question(query: QueryParams) -> Question:
    """A checked question, or one sentence about the first thing that is wrong with it."""
    given = dict(query.items())
    if len(given) != len(query.multi_items()):
        twice = [name for name in given if len(query.getlist(name)) > 1]
        raise UserError(f"{listed(twice)} is given more than once; give it once.")
    try:
        return Question.model_validate(given)
    except ValidationError as error:
        raise UserError(_explained(error)) from None


def _explained(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = list(Question.model_fields)
        hint = did_you_mean(name[:40], known) or f"; parameters are {listed(known)}."
        return f"unknown parameter {name[:40]!r}{hint}"
    if first["type"] == "missing":
        return f"{name} is missing; ask with /api/comprehend?sentence=the+woman+eats+pizza."
    rules = {
        "sentence": f"text of 1 to {MOST_CHARACTERS} characters",
        "prior_variance": "a number, one of those that /api/world lists",
        "step": f"a step that /api/world lists, or {CONVERGED!r}",
        "top": f"a whole number from 1 to {MOST_FILLERS}",
    }
    return f"{name} must be {rules[name]}."
