"""The format of a world file: keys, types, and that every name is declared in the same file.

Pydantic checks each value by itself, with the `Scope` of the file as its context; what needs two
tables is checked in `equivocal.world.checks`. The comments on fields become the reference of the
file format (docs/tools/keys.py).

Numbers may be arithmetic, in quotes: numbers, parameters, + - * / and parentheses.

    probability = "1 - 2*rare"

Nothing is executed: Python's own parser builds a tree, and only the nodes named in `_compute` are
computed, in exact fractions. There is no power, so a text of bounded length takes bounded time.
Further kinds of arithmetic would be added there.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from keyword import iskeyword
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lastlayer.errors import did_you_mean, join_names

ABSENT = "absent"  # reserved filler: "this event has no such role"

VerbForm = Literal["third", "past", "participle", "progressive", "plain"]
MOST_LETTERS = 200  # of arithmetic
ROLE_PREFIX = "role:"  # tells the role `action` from the feature that every verb has
PLUS = " + "  # joins a filler and the features a construction adds: "woman + passive voice"
SUM_TOLERANCE = 1e-6  # allows for round-off; 0.33 three times is not 1

# checked first, because Python's parser reads "1e-9999" as 0 and warns of "1if"
_TOKEN = re.compile(
    r"\s+|[-+*/()]|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?(?!\w)|[a-z_]\w*", re.ASCII | re.IGNORECASE
)

_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Scope:
    """What the rest of a file may name: its parameters, and all that it declares, by kind."""

    values: dict[str, float] = field(default_factory=dict)
    names: dict[str, Collection[str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # parameters

    def look_up(self, name: str) -> Fraction:
        """Return the value of a parameter; a `ValueError` proposes the nearest name."""
        if name not in self.values:
            raise ValueError(f"unknown parameter {name!r:.60}{did_you_mean(name, self.values)}")
        self.used.add(name)
        return Fraction(repr(self.values[name]))  # 0.1 is a tenth, not the nearest float

    def require(self, kind: str, name: str) -> str:
        """Return a name if the file declares it; the error's context has those that it does."""
        known = self.names.get(kind)
        if known is not None and name not in known:
            raise PydanticCustomError(
                "unknown_name", "unknown {kind}", {"kind": kind, "known": known}
            )
        return name


def evaluate(text: str, scope: Scope) -> Fraction:
    """Evaluate arithmetic exactly.

    >>> evaluate("(1 - rare) / 2", Scope({"rare": 0.1}))
    Fraction(9, 20)

    Raises
    ------
    ValueError
        Where the text is anything else, names an unknown parameter or divides by zero.
    """
    if len(text) > MOST_LETTERS:
        raise ValueError(f"it has more than {MOST_LETTERS} letters")
    if _TOKEN.sub("", text):
        raise ValueError("it is not arithmetic")
    try:
        return _compute(ast.parse(text.strip(), mode="eval").body, scope)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("it is not arithmetic") from None
    except ZeroDivisionError:
        raise ValueError("it divides by zero") from None


def _compute(node: ast.expr, scope: Scope) -> Fraction:
    """Compute one node of the tree; a kind that is not listed here is refused."""
    match node:
        case ast.Constant(value=(int() | float()) as number) if not isinstance(number, bool):
            return Fraction(str(number))  # a ValueError for 1e999, which is infinite
        case ast.Name(id=name):
            return scope.look_up(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_compute(operand, scope)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _compute(operand, scope)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_compute(left, scope), _compute(right, scope))
    raise ValueError("it is not arithmetic")


def _compute_number(value: Any, info: ValidationInfo[Scope]) -> Any:
    """Compute arithmetic in quotes, so that a third can be written exactly: "1/3"."""
    if isinstance(value, bool):
        raise ValueError(f"this should be a number, got {value!r}")
    if not isinstance(value, str):
        return value
    try:
        return float(evaluate(value, info.context))
    except (OverflowError, ValueError) as error:
        rule = "this should be a number such as 0.25 or '1/4'"
        raise ValueError(f"{rule}, got {value!r:.60} ({error})") from None


def _refuse_other_sums(chances: dict[str, float]) -> dict[str, float]:
    total = sum(chances.values())
    if abs(total - 1) > SUM_TOLERANCE:
        ways_out = "change them, or write fractions in quotes such as '1/3'"
        raise ValueError(f"the probabilities sum to {total:.6g}, not 1; {ways_out}")
    return chances


def _refuse_repeated(names: "tuple[T, ...]") -> "tuple[T, ...]":
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"duplicate {name!r:.60}; once is enough")
    return names


def _refuse_other_roles(names: tuple[str, ...]) -> tuple[str, ...]:
    if "action" not in names:
        raise ValueError("there is no role 'action'; add it, since [actions] fills it")
    if "weight" in names:
        raise ValueError("a role cannot be called 'weight', a key of [actions]; rename it")
    return names


def _refuse_odd_feature(name: str) -> str:
    if not name.strip() or PLUS.strip() in name or name.startswith(ROLE_PREFIX):
        raise ValueError(
            f"feature {name!r:.60} is empty, has a plus or begins with {ROLE_PREFIX!r}; rename it"
        )
    return name


def _refuse_odd_parameter(name: str) -> str:
    """Refuse a name of a parameter that arithmetic cannot have."""
    if not (name.isascii() and name.isidentifier()) or iskeyword(name):
        rule = "letters a to z, digits and _, begins with a letter and is no keyword of Python"
        raise ValueError(f"the name of a parameter has {rule}, got {name!r:.60}")
    return name


def _parse_names(value: Any) -> Any:
    """Accept a single name in place of a list."""
    return [value] if isinstance(value, str) else value


def _parse_rules(value: Any) -> Any:
    """Turn fillers that are given without rules into a list of one rule."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return value
    return [{"then": value}]


def _sort_keys(value: Any) -> Any:
    """Separate the keys of an action table into its own settings and the roles it fills."""
    if not isinstance(value, dict):
        return value
    settings = {key: value[key] for key in ("action", "weight") if key in value}
    roles = {key: entry for key, entry in value.items() if key not in settings}
    return settings | {"roles": roles}


def _require(kind: str) -> AfterValidator:
    """Return a check that the file declares a name."""

    def check(name: str, info: ValidationInfo[Scope]) -> str:
        return info.context.require(kind, name)

    return AfterValidator(check)


def _find_form(value: Any) -> str:
    """Return in which of three forms something is written; pydantic then checks that alone."""
    forms = {"str": "(name)", "list": "(list)", "dict": "(table)"}
    return forms.get(type(value).__name__, "other")


FORMS = Discriminator(
    _find_form,
    custom_error_type="form",
    custom_error_message="this should be a name, a table or, for fillers, a list",
)
T = TypeVar("T")
Names = Annotated[tuple[T, ...], AfterValidator(_refuse_repeated)]
Listed = Annotated[Names[T], BeforeValidator(_parse_names)]  # or a single name
Some = Annotated[Listed[T], Field(min_length=1)]
Role = Annotated[str, _require("role")]
Marker = Annotated[str, _require("marker")]
Feature = Annotated[str, AfterValidator(_refuse_odd_feature), _require("feature")]
Word = Annotated[str, _require("word")]
Member = Annotated[str, _require("word or class")]  # or a group
Filler = Annotated[str, _require("filler")]  # the same, or "absent"
Number = Annotated[float, BeforeValidator(_compute_number), Field(allow_inf_nan=False)]
Weight = Annotated[Number, Field(ge=0)]
Probability = Annotated[Number, Field(ge=0, le=1)]
Distribution = Annotated[
    dict[Annotated[str, _require("single word")], Probability], AfterValidator(_refuse_other_sums)
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """`then` holds where the roles already chosen match `when`; the first match counts.

    `then` is a word, a class, a group or a distribution by name, a list of words and classes
    (equally likely), or a table of probabilities.
    """

    # other roles of the same action, and what they must be: a word, a class, a group, absent, or a
    # list of these; all must fit, and roles may not ask in a circle; without it a rule always fits
    when: dict[str, Some[Filler]] = {}
    # the fillers: a word, class, group or distribution by name, a list of words and classes (each
    # word equally likely), or a table of probabilities; absent: the event has no such role
    then: Annotated[
        Annotated[str, _require("filler or distribution"), Tag("(name)")]
        | Annotated[tuple[Filler, ...], Field(min_length=1), Tag("(list)")]
        | Annotated[Distribution, Tag("(table)")],
        FORMS,
    ]


def list_asked_roles(rules: tuple[Rule, ...]) -> list[str]:
    """List the roles that rules ask about, each once, in a fixed order."""
    return list(dict.fromkeys(role for rule in rules for role in rule.when))


class ActionSpec(_Strict):
    """What may take part in one action; a role that is not named does not occur with it."""

    action: str | None = None  # the word, where the table's name is not the word itself
    weight: Weight = 1.0  # relative frequency; 0: never
    roles: dict[Role, Annotated[tuple[Rule, ...], BeforeValidator(_parse_rules)]]

    @model_validator(mode="after")
    def _check_rules(self) -> "ActionSpec":
        for role, rules in self.roles.items():
            if any(not rule.when for rule in rules[:-1]):
                why = "has no `when`, so the rules after it are never used; move it to the end"
                raise ValueError(f"a rule for {role!r} {why}")
            for asked in list_asked_roles(rules):
                if asked not in self.roles:
                    hint = did_you_mean(asked, self.roles) or f"; ask for {join_names(self.roles)}"
                    raise ValueError(
                        f"`when` for {role!r} asks for {asked!r}, which has no rules here{hint}"
                    )
        try:
            asks = {role: list_asked_roles(rules) for role, rules in self.roles.items()}
            TopologicalSorter(asks).prepare()
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise ValueError(f"the rules ask in a circle ({circle}); drop one `when`") from None
        return self


class ConstructionSpec(_Strict):
    """A way to put an event into words: which roles, in which order, with which markers."""

    name: str  # what it is called; each name once
    # the roles that are said, in this order; one that the event lacks is skipped
    order: Names[Role]
    actions: Listed[Annotated[str, _require("action")]] | None = None  # None: all of them
    # how often it is chosen; those without share equally what the others leave; for each action
    # they sum to 1
    probability: Probability | None = None
    # role: how often it is said, independently of the others; else always
    mentioned: dict[Role, Probability] = {}
    # role: function word switched on together with the filler, or a table with one for each word,
    # class or group
    markers: dict[
        Role,
        Annotated[
            Annotated[Marker, Tag("(name)")] | Annotated[dict[Member, Marker], Tag("(table)")],
            FORMS,
        ],
    ] = {}
    adds: dict[Role, Listed[Feature]] = {}  # role: features of the filler in this construction only
    form: VerbForm = "third"  # how the action word is spelled in `Sentence.text`

    @model_validator(mode="after")
    def _check_order(self) -> "ConstructionSpec":
        for role in [*self.mentioned, *self.markers]:
            if role not in self.order:
                rule = f"`mentioned` or `markers` has role {role!r}, which is not in `order`"
                raise ValueError(f"{rule}; add it there")
        return self


def _refuse_same_names(specs: tuple[ConstructionSpec, ...]) -> tuple[ConstructionSpec, ...]:
    _refuse_repeated(tuple(spec.name for spec in specs))
    return specs


class NoiseSpec(_Strict):
    """Something that happens to sentences between speaker and listener, and where."""

    # two roles whose words change places, or two function words
    exchange: Annotated[Listed[str], Field(min_length=2, max_length=2)] | None = None
    delete: Some[Marker] | None = None  # function words, all at once
    # role: function word before it, all at once
    insert_markers: Annotated[dict[Role, Marker], Field(min_length=1)] | None = None
    probability: Probability  # at each place where it may strike
    # None: all of them
    constructions: Listed[Annotated[str, _require("construction")]] | None = None

    @model_validator(mode="after")
    def _check_kind(self, info: ValidationInfo[Scope]) -> "NoiseSpec":
        kinds = ("exchange", "delete", "insert_markers")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            named = " and ".join(given) or "none of them"
            raise ValueError(
                f"a noise has one of the keys {', '.join(kinds)}, got {named}; one table each"
            )
        roles, markers = ({*info.context.names[kind]} for kind in ("role", "marker"))
        two = {*(self.exchange or ())}
        if not (two <= roles - {"action"} or two <= markers):
            known = f"roles are {join_names(roles - {'action'})}; markers {join_names(markers)}"
            raise ValueError(f"`exchange` has two roles, not the action, or two markers; {known}")
        return self


class ParameterSpec(_Strict):
    """A number that arithmetic in the file may name, and that can be set when it is loaded."""

    default: Number  # the value unless another is given
    least: Number = 0.0  # the least that is accepted
    most: Number = 1.0  # the largest that is accepted
    description: str = ""  # what it means, for `equivocal world show`

    @model_validator(mode="after")
    def _check_range(self) -> "ParameterSpec":
        if not self.least <= self.default <= self.most:
            wrong = f"{self.default:g} is not from {self.least:g} to {self.most:g}"
            raise ValueError(f"the value {wrong}; change it")
        return self


class VerbForms(_Strict):
    """Irregular spellings of a verb; missing forms are made by rule."""

    third: str | None = None  # by rule: chases, watches, tries
    past: str | None = None  # by rule: chased, watched, tried
    participle: str | None = None  # the given past, else by rule
    progressive: str | None = None  # by rule: chasing, watching, trying


class _Named(BaseModel):
    name: str


class Declarations(BaseModel):
    """The parts of a world file that are read first, since the rest may name what they declare."""

    parameters: dict[Annotated[str, AfterValidator(_refuse_odd_parameter)], ParameterSpec] = {}
    roles: Annotated[Names[str], AfterValidator(_refuse_other_roles)]
    features: Names[str] | None = None
    words: dict[str, dict[str, Any]]
    groups: dict[str, Any] = {}
    distributions: dict[str, Any] = {}
    markers: dict[str, Any] = {}
    actions: dict[str, Any]
    constructions: tuple[_Named, ...]

    def list_names(self) -> dict[str, Collection[str]]:
        """List the declared names by kind."""
        words = dict.fromkeys(chain(*self.words.values()))
        members = words | dict.fromkeys((*self.words, *self.groups))
        fillers = {**members, ABSENT: None}
        return {
            "role": self.roles,
            "marker": self.markers,
            "action": self.actions,
            "construction": [each.name for each in self.constructions],
            "word": words,
            "single word": {**words, ABSENT: None},
            "word or class": members,
            "filler": fillers,
            "filler or distribution": fillers | dict.fromkeys(self.distributions),
        } | ({} if self.features is None else {"feature": self.features})


class WorldFile(_Strict):
    """One world file, as written."""

    # a world of the package on which this one builds: tables are merged entry by entry, anything
    # else takes the place of what is there
    extends: str | None = None
    # numbers that can be set when the world is loaded; probabilities and weights may be arithmetic
    # of them in quotes, such as "1 - 2*rare"
    parameters: dict[str, ParameterSpec] = {}
    name: Annotated[str, Field(pattern=r"\S")]  # what the world is called
    description: str = ""  # one line about it, for `equivocal world show`
    # what can be asked about an event; "action" must be among them, and some action must fill each
    roles: Names[str]
    # all output features, in order; a feature that is not listed is then an error; by default in
    # the order in which words use them
    features: Names[str] | None = None
    unused_features: Names[str] = ()  # listed features, kept as units although no word has them
    # [words.CLASS]: each word with its features, no two words the same; a class name stands for all
    # its words; a word may be a phrase, and must occur in some event
    words: dict[str, Annotated[dict[str, Some[Feature]], Field(min_length=1)]]
    groups: dict[str, Some[Member]] = {}  # names for several words, classes or other groups
    # [distributions.NAME]: probabilities of words, or of absent, for use in several actions
    distributions: dict[str, Distribution] = {}
    # function words, each an input token without features, and their spellings: the first is
    # printed, all are understood
    markers: dict[str, Some[str]] = {}
    verbs: dict[Word, VerbForms] = {}  # irregular forms of verbs; others follow rules
    forms: dict[Word, Listed[str]] = {}  # further spellings of words, such as irregular plurals
    # [actions.NAME]: what happens, with whom, how often
    actions: Annotated[
        dict[str, Annotated[ActionSpec, BeforeValidator(_sort_keys)]], Field(min_length=1)
    ]
    # how events are put into words
    constructions: Annotated[
        tuple[ConstructionSpec, ...], Field(min_length=1), AfterValidator(_refuse_same_names)
    ]
    # [noise.NAME]: how a sentence may be distorted before it is heard, at most once
    noise: dict[str, NoiseSpec] = {}
