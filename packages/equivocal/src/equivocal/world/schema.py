"""The format of a world file: keys and types of the TOML, before any name is looked up.

Pydantic checks types and key names here; `equivocal.world.checks` checks what the names refer to.
A new key of the file format is added here first, then in `docs/worlds.md`.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from keyword import iskeyword
from math import inf, isfinite, nan
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from lastlayer.errors import did_you_mean

ABSENT = "absent"  # reserved filler: "this event has no such role"

VerbForm = Literal["third", "past", "participle", "progressive", "plain"]
MOST_LETTERS = 200  # of arithmetic

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
    """The values of the parameters that arithmetic may use, and the names of those it has used."""

    values: dict[str, float] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def look_up(self, name: str) -> Fraction:
        """Return the value of a parameter; a `ValueError` proposes the nearest name."""
        if name not in self.values:
            raise ValueError(f"unknown parameter {name!r:.60}{did_you_mean(name, self.values)}")
        self.used.add(name)
        return Fraction(repr(self.values[name]))  # 0.1 is a tenth, not the nearest float


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


def parse_number(
    value: Any,
    scope: Scope | None = None,
    *,
    rule: str = "this should be a number such as 0.25 or '1/4', and finite",
    least: float = -inf,
) -> float:
    """Read a number, or arithmetic in quotes, so that a third can be written exactly: "1/3".

    Raises
    ------
    ValueError
        With the rule and the reason, where the value is no finite number or less than `least`.
    """
    number, reason = nan, ""
    try:
        if isinstance(value, str):
            number = float(evaluate(value, scope or Scope()))
            reason = f" ({number:g})"
        elif not isinstance(value, bool) and isinstance(value, Real):
            number = float(value)
    except OverflowError:
        number = inf
    except ValueError as error:
        reason = f" ({error})"
    if not (isfinite(number) and number >= least):
        raise ValueError(f"{rule}, got {value!r:.60}{reason}")
    return number


def _parse_probability(value: Any, info: ValidationInfo, what: str = "probability") -> float:
    """Read a number with the parameters of the file, which are the context of its validation."""
    rule = f"a {what} is a number such as 0.25 or '1/4', finite and not negative"
    return parse_number(value, info.context, rule=rule, least=0)


def _refuse_above_one(value: float) -> float:
    if value > 1:
        raise ValueError(f"a probability is at most 1, got {value:g}; lower it")
    return value


def _refuse_unnamed(value: Any) -> Any:
    """Refuse keys of a noise that are written into [noise] itself, not into [noise.NAME]."""
    tables = value.values() if isinstance(value, dict) else [None]
    if not all(isinstance(table, dict) for table in tables):
        rule = "each noise has a name and a table of its own"
        raise ValueError(f"{rule}; write [noise.NAME], such as [noise.slip], and its keys below it")
    return value


def _parse_rules(value: Any) -> Any:
    """Turn fillers that are given without rules into a list of one rule."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return value
    return [{"then": value}]


def _parse_fillers(value: Any, info: ValidationInfo) -> str | tuple[str, ...] | dict[str, float]:
    """Check `then` with one message; a pydantic union would give one per alternative."""
    if isinstance(value, str):
        return value
    if value and isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    if isinstance(value, dict):
        return {word: _parse_probability(chance, info) for word, chance in value.items()}
    raise ValueError(
        "fillers are a name, a list of names or a table of probabilities such as "
        f"{{ egg = 0.7, toast = 0.3 }}, got {value!r:.60}"
    )


def _parse_marker(value: Any) -> str | dict[str, str]:
    """Check a marker for every filler, or one for each class of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and all(isinstance(marker, str) for marker in value.values()):
        return value
    raise ValueError(
        "a marker is a name, or a table with one for each class such as "
        f"{{ animals = 'der', things = 'das' }}, got {value!r:.60}"
    )


def _refuse_repeated(names: tuple[str, ...]) -> tuple[str, ...]:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"duplicate {name!r:.60}; once is enough")
    return names


def _check_roles(names: tuple[str, ...]) -> tuple[str, ...]:
    if "action" not in names:
        raise ValueError("there is no role 'action'; add it, since [actions] fills it")
    if "weight" in names:
        raise ValueError("a role cannot be called 'weight', a key of [actions]; rename it")
    return names


def _parse_names(value: Any) -> Any:
    """Accept a single name in place of a list."""
    return [value] if isinstance(value, str) else value


def _sort_keys(value: Any) -> Any:
    """Separate the keys of an action table into its own settings and the roles it fills."""
    if not isinstance(value, dict):
        return value
    own = {key: value[key] for key in ("action", "weight") if key in value}
    return own | {"roles": {key: entry for key, entry in value.items() if key not in own}}


Probability = Annotated[float, BeforeValidator(_parse_probability)]
Share = Annotated[Probability, AfterValidator(_refuse_above_one)]
Names = Annotated[tuple[str, ...], AfterValidator(_refuse_repeated)]
NameList = Annotated[Names, BeforeValidator(_parse_names)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """`then` holds where the roles already chosen match `when`; the first match counts.

    `then` is a word, a class, a group or a distribution by name, a list of words and classes
    (equally likely), or a table of probabilities.
    """

    when: dict[str, Annotated[NameList, Field(min_length=1)]] = {}
    then: Annotated[str | tuple[str, ...] | dict[str, float], PlainValidator(_parse_fillers)]


def list_asked_roles(rules: tuple[Rule, ...]) -> list[str]:
    """List the roles that rules ask about, each once, in a fixed order."""
    return list(dict.fromkeys(role for rule in rules for role in rule.when))


class ActionSpec(_Strict):
    """What may take part in one action; a role that is not named does not occur with it."""

    action: str | None = None  # the word, where the table's name is not the word itself
    # relative frequency; 0: never
    weight: Annotated[float, BeforeValidator(partial(_parse_probability, what="weight"))] = 1.0
    roles: dict[str, Annotated[tuple[Rule, ...], BeforeValidator(_parse_rules)]]


class ConstructionSpec(_Strict):
    """A way to put an event into words: which roles, in which order, with which markers."""

    name: str
    order: Names
    actions: NameList | None = None  # None: all of them
    probability: Probability | None = None  # None: what the other constructions leave
    # role: how often it is put into words; else always
    mentioned: dict[str, Share] = {}
    # role: function word switched on together with the filler; a table where fillers differ
    markers: dict[str, Annotated[str | dict[str, str], PlainValidator(_parse_marker)]] = {}
    adds: dict[str, NameList] = {}  # role: features the filler carries in this construction only
    form: VerbForm = "third"  # how the action word is spelled in `Sentence.text`


def _refuse_same_names(specs: tuple[ConstructionSpec, ...]) -> tuple[ConstructionSpec, ...]:
    _refuse_repeated(tuple(spec.name for spec in specs))
    return specs


class NoiseSpec(_Strict):
    """Something that happens to sentences between speaker and listener, and where."""

    # two roles whose words change places, or two function words
    exchange: Annotated[NameList, Field(min_length=2, max_length=2)] | None = None
    delete: Annotated[NameList, Field(min_length=1)] | None = None  # function words, all at once
    # role: function word before it, all at once
    insert_markers: Annotated[dict[str, str], Field(min_length=1)] | None = None
    probability: Share  # at each place where it may strike
    constructions: NameList | None = None  # None: all of them

    @model_validator(mode="after")
    def _check_kind(self) -> "NoiseSpec":
        kinds = ("exchange", "delete", "insert_markers")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            named = " and ".join(given) or "none of them"
            raise ValueError(
                f"a noise has one of the keys {', '.join(kinds)}, got {named}; one table each"
            )
        return self


def _check_parameter_name(name: str) -> str:
    """Check that arithmetic can name a parameter."""
    if not (name.isascii() and name.isidentifier()) or iskeyword(name):
        rule = "letters a to z, digits and _, begins with a letter and is no keyword of Python"
        raise ValueError(f"the name of a parameter has {rule}, got {name!r:.60}")
    return name


class ParameterSpec(_Strict):
    """A number that arithmetic in the file may name, and that can be set when it is loaded."""

    default: Annotated[float, BeforeValidator(parse_number)]
    least: Annotated[float, BeforeValidator(parse_number)] = 0.0
    most: Annotated[float, BeforeValidator(parse_number)] = 1.0
    description: str = ""

    @model_validator(mode="after")
    def _check_range(self) -> "ParameterSpec":
        if not self.least <= self.default <= self.most:
            wrong = f"default {self.default:g} is not from {self.least:g} to {self.most:g}"
            raise ValueError(f"the {wrong}; change one of them")
        return self


class VerbForms(_Strict):
    """Irregular spellings of a verb; missing forms are made by rule."""

    third: str | None = None
    past: str | None = None
    participle: str | None = None
    progressive: str | None = None


class ParameterTable(BaseModel):
    """The part of a world file that is read first, since the rest may name what it declares."""

    parameters: dict[Annotated[str, AfterValidator(_check_parameter_name)], ParameterSpec] = {}


class WorldFile(_Strict):
    """One world file, as written."""

    extends: str | None = None  # a world of the package; None once it is merged with that one
    parameters: dict[str, ParameterSpec] = {}
    name: Annotated[str, Field(pattern=r"\S")]
    description: str = ""
    roles: Annotated[Names, AfterValidator(_check_roles)]
    features: Names | None = None  # None: in the order in which words use them
    unused_features: Names = ()  # output units kept although no word has them
    words: dict[str, dict[str, Annotated[NameList, Field(min_length=1)]]]  # class: word: features
    groups: dict[str, NameList] = {}  # name: words, classes or other groups
    distributions: dict[str, dict[str, Probability]] = {}
    # function word (an input token): its spellings
    markers: dict[str, Annotated[NameList, Field(min_length=1)]] = {}
    verbs: dict[str, VerbForms] = {}
    forms: dict[str, NameList] = {}  # word: further spellings
    actions: Annotated[
        dict[str, Annotated[ActionSpec, BeforeValidator(_sort_keys)]], Field(min_length=1)
    ]
    constructions: Annotated[
        tuple[ConstructionSpec, ...], Field(min_length=1), AfterValidator(_refuse_same_names)
    ]
    noise: Annotated[dict[str, NoiseSpec], BeforeValidator(_refuse_unnamed)] = {}
