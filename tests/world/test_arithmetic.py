"""Arithmetic in world files: exact, bounded, and nothing but arithmetic."""

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivocal.world import World, WorldError, read_example
from equivocal.world.parameters import MOST_LETTERS, Scope, evaluate

VALUES = {"rare": 0.01, "slip_2": 0.1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/3", Fraction(1, 3)),
        (" 0.25 ", Fraction(1, 4)),
        ("1e-3", Fraction(1, 1000)),
        ("2.5E+1", Fraction(25)),
        (".5", Fraction(1, 2)),
        ("1 - 2*rare", Fraction(98, 100)),
        ("(1 - rare)/2", Fraction(99, 200)),
        ("-(rare - 3*slip_2)", Fraction(29, 100)),
        ("1 - 1/2 - 1/3", Fraction(1, 6)),  # from the left
        ("2 + 3 * 4 / 6", Fraction(4)),
        ("+rare", Fraction(1, 100)),  # the hundredth, and not the float nearest to it
    ],
)
def test_arithmetic_is_exact(text: str, expected: Fraction) -> None:
    assert evaluate(text, Scope(VALUES)) == expected


EXPRESSIONS = st.recursive(
    st.sampled_from(["rare", "slip_2", "1", "0.3", "7"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
    max_leaves=12,
)


@given(text=EXPRESSIONS)
def test_random_arithmetic_agrees_with_fractions_of_python(text: str) -> None:
    if len(text) > MOST_LETTERS:
        return
    exact = {name: Fraction(str(value)) for name, value in VALUES.items()}
    in_python = re.sub(r"\b[\d.]+", r"Fraction('\g<0>')", text)
    try:
        expected = eval(in_python, {"Fraction": Fraction, **exact})  # our own text
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides by zero"):
            evaluate(text, Scope(VALUES))
    else:
        assert evaluate(text, Scope(VALUES)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "+", "1 +", "()", "1,2", "1 2", "rare slip_2", "1//2", "2**9**9", "9**9**9**9"),
        *("1 if rare else 2", "1if 2else 3", "rare < 1", "not rare", "True", "None", "1j", "0x1f"),
        *("rare.real", "rare()", "__import__('os')", "[1]", "{1}", "'1'", "f'{rare}'", "lambda: 1"),
        *(
            "(1",
            "1)",
            "(" * 90 + "1" + ")" * 90 + "x",
            "1\n+1",
            "1;2",
            "a := 1",
            "1_000",
            "1e",
            "🍕",
        ),
        *(
            "1e999",
            "1e-9999",
            "1.5.2",
            "1.if",
            "\0",
            "1 #",
            "1\\\n+1",
            "rare!",
            "½",
            "١",
            "𝐫𝐚𝐫𝐞",
            "0 * ½",
            "1" * 300,
        ),
    ],
)
def test_nothing_else_is_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        evaluate(text, Scope(VALUES))


def test_unknown_parameters_propose_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown parameter 'rar': did you mean 'rare'?"):
        evaluate("1 - rar", Scope(VALUES))


@pytest.mark.parametrize("text", ["-" * (MOST_LETTERS - 1) + "1", "(" * 99 + "1" + ")" * 99])
def test_the_deepest_text_that_fits_is_evaluated_or_refused(text: str) -> None:
    try:
        assert abs(evaluate(text, Scope())) == 1
    except ValueError as error:
        assert "not arithmetic" in str(error)


def test_the_largest_numbers_that_fit_take_no_time() -> None:
    began = time.monotonic()
    evaluate("*".join(["1e308"] * 33) + "/3", Scope())
    evaluate("/".join(["1e-308"] * 28), Scope())
    assert time.monotonic() - began < 1


PIECES = st.lists(
    st.sampled_from([*"+-*/()., \n#_eE'", "**", "rare", "if", "or", "1", "0", ".5", "9" * 30]),
    max_size=40,
).map("".join)


@settings(max_examples=300)
@given(text=st.one_of(st.text(max_size=250), PIECES))
def test_garbage_is_a_number_or_a_mistake(text: str) -> None:
    """Warnings are errors in tests, so that none of Python's parser reaches a user either."""
    try:
        assert isinstance(evaluate(text, Scope(VALUES)), Fraction)
    except ValueError as error:
        assert str(error)


@settings(max_examples=100, deadline=2000)
@given(text=st.one_of(st.text(st.characters(codec="utf-8"), max_size=50), PIECES))
def test_garbage_in_a_world_file_is_a_world_error(text: str) -> None:
    import tomli_w

    line = tomli_w.dumps({"cat": text}).strip()
    world = read_example().replace("cat = 0.3", line)
    try:
        World.from_toml(world, "my.toml")
    except WorldError as error:
        assert str(error).startswith("my.toml")
