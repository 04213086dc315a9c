"""The messages of the API as pydantic models: what may be asked, and what is answered.

Everything that arrives is bounded here, before any work is done. `equivocal.web.description` turns
the models into the OpenAPI description, so a new field needs to be added here alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError

from equivocal.asking import PAPER_STEP
from equivocal.asking.answer import TOP
from equivocal.errors import UserError, explain_validation, join_names

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

MOST_CHARACTERS = 300
MOST_FILLERS = 20
MOST_STEPS = 1_000_000

Probability = Annotated[float, Field(ge=0, le=1)]


class Message(BaseModel):
    """A message without fields that are not described."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Question(Message):
    """The query of `/api/comprehend.csv`."""

    sentence: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    world: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    prior_variance: float | None = None
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] | Literal["converged"] = PAPER_STEP


class ListQuestion(Question):
    """The query of `/api/comprehend`, which lists the first fillers of each role."""

    top: Annotated[int, Field(ge=1, le=MOST_FILLERS)] = TOP


class Belief(Message):
    """An `equivocal.asking.Belief`."""

    filler: str
    mle: Probability
    bayes: Probability
    low: Probability
    high: Probability
    truth: Probability | None
    said: bool


class NetworkWord(Message):
    """The beliefs of one network after one word."""

    word: str
    roles: dict[str, list[Belief]]
    semantic_update: NonNegativeFloat
    entropy: NonNegativeFloat
    epistemic: NonNegativeFloat


class Word(NetworkWord):
    """The beliefs of all networks after one word."""

    possible: bool | None
    summary: str


class Network(Message):
    """What one network says alone, about the same fillers."""

    network: str
    time: float | None
    words: list[NetworkWord]


class Answer(Message):
    """An `equivocal.asking.Answer`, as its `to_dict` gives it."""

    sentence: str
    world: str
    network: str
    prior_variance: float
    step: int | str
    time: float | None
    words: list[Word]
    indicated: dict[str, str]
    summary: str
    networks: list[Network]


class Step(Message):
    """A step of the paper's sampler, and its time τ by prior variance."""

    step: int
    times: dict[str, float]


@dataclass(frozen=True)
class Example:
    """A sentence with its label and group, and perhaps a second one to compare it with."""

    group: str
    label: str
    sentence: str
    compare: str | None = None


class World(Message):
    """The choices of the page: words to click, examples, ensembles."""

    name: str
    description: str
    network: str
    roles: list[str]
    classes: dict[str, list[str]]
    examples: list[Example]
    prior_variances: list[float]
    prior_variance: float
    steps: list[Step]
    paper_step: int
    limits: dict[str, int]  # what a question may not exceed


class Worlds(Message):
    """Every world that can be asked about."""

    worlds: list[World]


class Health(Message):
    """Whether the server is up, and with which world and version."""

    status: str
    world: str
    version: str


class Error(Message):
    """What was wrong with a request, in one sentence."""

    error: str


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def read_question(kind: type[AnyQuestion], query: "QueryParams") -> AnyQuestion:
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
