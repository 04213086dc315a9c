"""Numbers of a world file: arithmetic, and parameters that are set when a world is loaded.

    probability = "1 - 2*rare"

Arithmetic stands in quotes: numbers, parameters, + - * / and parentheses. Nothing is executed:
Python's own parser builds a tree, and only the nodes named in `_compute` are computed, in exact
fractions. There is no power, so a text of bounded length takes bounded time. What else a number in
a world file could be made of is added there.

A file declares parameters under [parameters], each with a default and a range. Values that are
chosen (`World.load("slips", rare=0.02)`) take the place of the defaults before the file is read, so
a world is always what its text says. Wherever a world is given by its name, values can be written
behind it: "slips:rare=0.02,slip=0.01".
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING, Any

from equivocal.errors import UserError, check_known, did_you_mean, join_names

if TYPE_CHECKING:
    from equivocal.world.schema import ParameterSpec


_VALUES = re.compile(r":[^:=/\\]+=[^:]*\Z")  # at the end of a name
MOST_LETTERS = 200
# Python's parser would take "1e-9999" for 0, and warns of "1if"
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
    """The values of the parameters that arithmetic may name, and which of them it did name."""

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
            return Fraction(str(number))  # of 1e999, which is infinite, a ValueError
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


def split_world_name(name: str) -> tuple[str, str]:
    """Split a world's name from the parameter values behind it, without checking either.

    Parameters
    ----------
    name : str
        A name or path, with or without values.

    Returns
    -------
    name, values : str
        The values keep their colon; they are empty where there are none.

    Examples
    --------
    >>> split_world_name("my.toml:rare=0.02,slip=0.01")
    ('my.toml', ':rare=0.02,slip=0.01')
    >>> split_world_name("paper")
    ('paper', '')
    """
    found = _VALUES.search(name)
    cut = found.start() if found else len(name)
    return name[:cut], name[cut:]


def parse_values(text: str) -> dict[str, str]:
    """Parse what `split_world_name` found behind a name: ":rare=0.02,slip=0.01"."""
    values: dict[str, str] = {}
    for pair in text.removeprefix(":").split(",") if text else ():
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not sign or not name or name in values:
            why = "has a name twice" if name in values else "is not name=value"
            raise UserError(
                f"parameters stand behind a world as in 'slips:rare=0.02,slip=0.01'; "
                f"{pair.strip()!r:.60} {why}."
            )
        values[name] = value
    return values


def put_values(
    raw: dict[str, Any], specs: Mapping[str, "ParameterSpec"], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Put values that the caller chose in place of the defaults of a file.

    Parameters
    ----------
    raw : dict
        The file as parsed.
    specs : mapping of str to ParameterSpec
        Its parameters.
    given : mapping
        The values by name: numbers, or text such as "1/50".
    source : str
        The world's name in error messages.

    Raises
    ------
    UserError
        Where there is no such parameter, or the value is no number or out of range.
    """
    if given and not specs:
        raise UserError(
            f"world {source!r} has no parameters, got {join_names(given)}; leave them out, or "
            "declare them in its table [parameters]."
        )
    chosen = {name: dict(table) for name, table in raw.get("parameters", {}).items()}
    for name, value in given.items():
        check_known(name, specs, "parameter", f"world {source!r}: ")
        try:
            number = parse_number(value)
        except ValueError as error:
            raise UserError(f"world {source!r}, parameter {name!r}: {error}.") from None
        if not specs[name].least <= number <= specs[name].most:
            spec = specs[name]
            raise UserError(
                f"world {source!r}: parameter {name!r} must be from {spec.least:g} to "
                f"{spec.most:g}, got {number:g}."
            )
        chosen[name]["default"] = number
    return {**raw, "parameters": chosen} if given else raw
