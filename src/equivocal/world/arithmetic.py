"""Arithmetic in a world file: numbers, parameters, + - * / and parentheses, in quotes.

    probability = "1 - 2*rare"

Nothing is executed: Python's own parser builds a tree, and only the nodes named in
`_compute` are computed, in exact fractions. There is no power, so a text of bounded length takes
bounded time. What else a number in a world file could be made of is added there.
"""

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from equivocal.errors import did_you_mean

__all__ = ["Scope", "evaluate"]

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
