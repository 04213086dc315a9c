"""The API: its messages as pydantic models, the description of a world, and OpenAPI.

The models bound every request before any work is done. The OpenAPI 3.1 description is made from
them, so a new field needs to be added here alone; the tests compare answers with it. Examples are
found in the world itself: congruent, reversed, misleading. The worlds that have the paper's words
show its own pair as well; a new group of examples belongs in `find_examples`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError
from pydantic.json_schema import models_json_schema

from equivocal import __version__
from equivocal import world as worlds
from equivocal.asking.answer import TOP
from equivocal.asking.comprehender import Comprehender
from equivocal.asking.source import CONVERGED, PAPER_PAIR, PAPER_STEP
from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.errors import explain_validation
from equivocal.world.grammar import NO_FILLER
from equivocal.world.queries import NO_NODE
from lastlayer.errors import UserError, join_names

if TYPE_CHECKING:
    QueryParams = Any

MOST_CHARACTERS = 300
MOST_FILLERS = 20
MOST_STEPS = 1_000_000
REFERENCE = "#/components/schemas/{model}"
PAPER_WORLDS = ("paper", "slips")  # worlds with the paper's words
PLACES = ("location", "place")  # roles whose words take an article
TAKEN_BACK = "An early belief is taken back"
EACH = 3  # examples of each kind
MISLED = 0.6  # least belief that a misleading sentence builds up and takes back
MOST_BELIEFS = 50_000_000  # pairs × units; larger worlds are not searched for misleading sentences

Probability = Annotated[float, Field(ge=0, le=1)]


class Message(BaseModel):
    """A message that may have no other fields than the described ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Question(Message):
    """The query of `/api/comprehend.csv`."""

    sentence: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    world: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    prior_variance: float | None = None
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] | Literal["converged"] = "converged"


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


class Part(Message):
    """A part of a reading, and the belief in it, of all networks together and of each alone."""

    filler: str
    bayes: Probability
    networks: list[Probability]


class Reading(Message):
    """Who does what to whom, by role; `truth` is the exact probability of all parts together."""

    kind: Literal["reading", "syntax", "rival"]
    parts: dict[str, Part]
    truth: Probability | None


class Word(NetworkWord):
    """The beliefs of all networks after one word."""

    possible: bool | None
    readings: list[Reading]
    summary: str


class Network(Message):
    """The answer of one network alone, about the same fillers."""

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
    limits: dict[str, int]  # the largest sizes of a question


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
    """Parse and check a query; the first mistake in it is explained in one sentence."""
    given = dict(query.items())
    if len(given) != len(query.multi_items()):
        twice = [name for name in given if len(query.getlist(name)) > 1]
        raise UserError(f"{join_names(twice)[:80]} is given more than once; give it once.")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        message = explain_validation(error, kind, "parameter")
        raise UserError(f"{message[:300]} /api/openapi.json describes all parameters.") from None


def describe_api(comprehenders: Sequence[Comprehender]) -> dict[str, Any]:
    """Return the OpenAPI description of a server with these comprehenders, one for each world."""
    models = (Answer, Error, Health, World, Worlds)
    _, schemas = models_json_schema(
        [(model, "serialization") for model in models], ref_template=REFERENCE
    )
    asked = (_describe_query(kind, comprehenders) for kind in (ListQuestion, Question))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Equivocal",
            "version": __version__,
            "description": "The beliefs of a network and its ensemble, word by word.",
        },
        "paths": {
            "/api/health": _describe_get("Whether the server is up.", Health),
            "/api/world": _describe_get("Words, examples, prior variances, steps.", World),
            "/api/worlds": _describe_get("The same for every world.", Worlds),
            "/api/comprehend": _describe_get("Beliefs after each word.", Answer, next(asked)),
            "/api/comprehend.csv": _describe_get("Beliefs in every filler.", None, next(asked)),
            "/api/openapi.json": _describe_get("This description.", dict),
        },
        "components": {"schemas": schemas["$defs"]},
    }


def _describe_query(
    kind: type[Question], comprehenders: Sequence[Comprehender]
) -> list[dict[str, Any]]:
    """Describe the parameters of a question, with the choices that these comprehenders offer."""
    settings = comprehenders[0].settings
    names = [comprehender.world.name for comprehender in comprehenders]
    choices = {
        "world": {"type": "string", "enum": names, "default": names[0]},
        "prior_variance": {
            "type": "number",
            "enum": list(settings.prior_variances),
            "default": settings.prior_variance,
        },
        "step": {"enum": [*comprehenders[0].steps, CONVERGED], "default": CONVERGED},
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
            responses[status] = {"description": reason, "content": _describe_json(Error)}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": responses}}


def _describe_json(answer: type) -> dict[str, Any]:
    refers = {"$ref": REFERENCE.format(model=answer.__name__)}
    return {"application/json": {"schema": {"type": "object"} if answer is dict else refers}}


def describe_world(comprehender: Comprehender) -> World:
    """Return the answer to `/api/world`."""
    world, variances = comprehender.world, comprehender.settings.prior_variances
    times = {f"{variance:g}": comprehender.get_times(variance) for variance in variances}
    return World(
        name=world.name,
        description=world.file.description,
        network=comprehender.source.name,
        roles=list(world.roles),
        classes=_list_classes(world),
        examples=find_examples(world),
        prior_variances=list(variances),
        prior_variance=comprehender.settings.prior_variance,
        steps=[
            Step(step=step, times={name: values[at] for name, values in times.items()})
            for at, step in enumerate(comprehender.steps)
        ],
        paper_step=PAPER_STEP,
        limits={"characters": MOST_CHARACTERS},
    )


def _list_classes(world: worlds.World) -> dict[str, list[str]]:
    """List the words of each class as sentences have them: verbs inflected, others with markers."""
    construction = world.grammar.constructions[0]
    said = dict(Vocabulary.from_world(world).verbs)
    for role in (each for each in construction.order if each != world.grammar.action_role):
        fillers = np.array(sorted(world.grammar.collect_fillers(role)))
        for number, marker in zip(fillers, construction.find_markers(role, fillers), strict=True):
            if marker != NO_FILLER:
                word = world.lexicon.words[number]
                said[word] = f"{world.file.markers[world.tokens[marker]][0]} {word}"
    return {
        name: [said.get(word, word) for word in words] for name, words in world.file.words.items()
    }


def find_examples(world: worlds.World) -> list[Example]:
    """Find example sentences for a world."""
    pair = []
    if world.name in PAPER_WORLDS:
        congruent, reversal = PAPER_PAIR
        pair = [
            Example("The paper's pair", "the pizza eats the woman", reversal),
            Example("The paper's pair", "both, side by side", congruent, reversal),
        ]
    found = islice(_find_reversals(world), EACH)
    usual = [tuple(_add_articles(world, text) for text in both) for both in found]
    misleading = [_add_articles(world, text) for text in _find_misleading(world)]
    return [
        *pair,
        *(Example("Congruent", text, text) for text, _ in usual),
        *(Example("Reversed", reverse, reverse, text) for text, reverse in usual),
        *(Example(TAKEN_BACK, text, text) for text in misleading),
    ]


def _add_articles(world: worlds.World, text: str) -> str:
    """Put "the" before participants and places, which the parser skips."""
    utterance = world.parse(text)
    roles = find_indicated_roles(world, utterance)
    named = (*Vocabulary.from_world(world).participants, *PLACES)
    words = {roles[role] for role in named if role in roles}

    def say(part: worlds.Constituent) -> str:
        if part.word not in words:
            return part.text
        marker = part.text[: -len(part.word)] if part.marker else ""
        return f"{marker}the {part.word}"

    return " ".join(say(part) for part in utterance)


def _find_reversals(world: worlds.World) -> Iterator[tuple[str, str]]:
    """Yield probable sentences of different actions, each with its reversal."""
    participants = Vocabulary.from_world(world).participants
    seen: set[str] = set()
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        roles = find_indicated_roles(world, utterance)
        action, said = roles.get("action", ""), [r for r in participants if r in roles]
        if action in seen or len(said) < 2 or len(roles) != len(utterance):
            continue
        seen.add(action)
        first, second = roles[said[0]], roles[said[1]]
        swap = {first: second, second: first}
        words = [swap.get(part.word, part.text) for part in utterance]
        yield sentence.text, " ".join(words)


def _find_misleading(world: worlds.World) -> list[str]:
    """Find sentences whose end takes back the strongest beliefs, one for each action."""
    if not world.is_exact or len(world.all_derivations.queries) > MOST_BELIEFS // len(world.units):
        return []
    believed = _compute_beliefs(world)
    scored = []
    for sentence in world.sentences:
        tokens = [tuple(pair) for pair in world.encode(sentence.text).tolist()]
        tree = world.all_derivations.tree
        nodes = [tree.find(tokens[: size + 1]) for size in range(len(tokens))]
        if NO_NODE in nodes:
            continue
        taken_back = believed[nodes[:-1]] - believed[nodes[-1]]
        scored.append((float(np.nanmax(taken_back, initial=0.0)), sentence.text))
    scored.sort(key=lambda pair: -pair[0])
    best: dict[str, str] = {}
    for led, text in scored:
        if led >= MISLED:
            best.setdefault(
                find_indicated_roles(world, world.parse(text)).get("action", text), text
            )
    return list(best.values())[:EACH]


def _compute_beliefs(world: worlds.World) -> NDArray[np.float32]:
    """Return exact beliefs after every prefix, (nodes, roles × fillers); NaN where unknown."""
    everything = world.all_derivations
    queries, units = everything.queries, Vocabulary.from_world(world).units
    believed = np.full(
        (len(everything.tree.parent), len(world.roles), len(units)), np.nan, np.float32
    )
    roles = queries.find_role_probes()
    believed[queries.node[roles], queries.probe[roles]] = queries.targets()[roles][:, units]
    return believed.reshape(len(believed), -1)
