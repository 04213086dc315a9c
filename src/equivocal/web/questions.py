"""The questions of the API as pydantic models: what arrives is bounded before any work is done.

A new parameter must be described in `openapi.json` too; the tests compare the two.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams

from equivocal.asking.answer import TOP
from equivocal.errors import UserError, explain_validation, join_names

MOST_CHARACTERS = 300
MOST_FILLERS = 20
MOST_STEPS = 1_000_000


class Question(BaseModel):
    """The query of `/api/comprehend.csv`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    sentence: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    prior_variance: float | None = None
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] | Literal["converged"] = "converged"


class ListQuestion(Question):
    """The query of `/api/comprehend`, which lists the first fillers of each role."""

    top: Annotated[int, Field(ge=1, le=MOST_FILLERS)] = TOP


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def read_question(kind: type[AnyQuestion], query: QueryParams) -> AnyQuestion:
    """Check a query, and name the first mistake in it in one sentence."""
    given = dict(query.items())
    if len(given) != len(query.multi_items()):
        twice = [name for name in given if len(query.getlist(name)) > 1]
        raise UserError(f"{join_names(twice)[:80]} is given more than once; give it once.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        message = explain_validation(error, kind, "parameter")
        raise UserError(f"{message[:300]} /api/openapi.json describes all parameters.") from None
