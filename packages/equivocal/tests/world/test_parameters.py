"""Parameters of worlds: declared, set, and saved in the text; exact and bounded arithmetic."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivocal.world import World, WorldError, read_example
from equivocal.world.schema import MOST_LETTERS, Scope, evaluate
from lastlayer.errors import UserError

VALUES = {"rare": 0.01, "slip_2": 0.1}  # of arithmetic
TABLE = """
[parameters]
lazy = { default = 0.3, most = 0.9, description = "how often the cat chases" }
spare = { default = "1/4", least = 0.1, most = 0.5 }

[groups]"""
TEXT = (
    read_example()
    .replace("[groups]", TABLE)
    .replace("dog = 0.6, cat = 0.3", 'dog = "0.9 - lazy", cat = "lazy"')
    .replace("lawn = 0.5, hedge = 0.25", 'lawn = "(1 - spare)*2/3", hedge = "(1 - spare)/3"')
    .replace("absent = 0.25", 'absent = "spare"')
    .replace("mentioned = { place = 0.5 }", 'mentioned = { place = "2*spare" }')
    .replace("weight = 2", 'weight = "8*spare"')
)


def problems_of(text: str) -> str:
    with pytest.raises(WorldError) as caught:
        World.from_toml(text, "my.toml")
    return str(caught.value)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("worlds") / "my.toml"
    path.write_text(TEXT)
    return path


def test_defaults_give_the_world_that_was_written_with_numbers(path: Path, garden: World) -> None:
    world = World.load(path)
    assert world.parameters == {"lazy": 0.3, "spare": 0.25}
    assert world.text == TEXT
    assert garden.parameters == {}
    assert world.fingerprint == garden.fingerprint  # 0.9 - 0.3 is 0.6 to the last bit


def test_values_are_set_by_argument_and_by_name(path: Path) -> None:
    world = World.load(path, lazy=0.5, spare="1/5")
    assert world.parameters == {"lazy": 0.5, "spare": 0.2}
    named = World.load(f"{path}:lazy=0.5,spare=1/5")
    both = World.load(f"{path}: lazy = 1/2", spare=np.float64(0.2))
    assert world.fingerprint == named.fingerprint == both.fingerprint
    assert world.fingerprint != World.load(path).fingerprint
    chases = [event for event in world.events if event.roles["action"] == "chase"]
    cats = sum(event.probability for event in chases if event.roles["agent"] == "cat")
    assert sum(event.probability for event in chases) == pytest.approx(1.6 / 2.6)
    assert cats == pytest.approx(0.5 * 1.6 / 2.6)


def test_the_text_of_a_world_gives_the_same_world(path: Path, tmp_path: Path) -> None:
    for name in (f"{path}:lazy=0.5", "slips", "slips:rare=0.03,slip=0.001"):
        world = World.load(name)
        (tmp_path / "world.toml").write_text(world.text, encoding="utf-8")
        again = World.load(tmp_path / "world.toml")
        assert again.parameters == world.parameters
        assert again.fingerprint == world.fingerprint
        assert again.text == world.text
        assert again.sentences == world.sentences
        assert "extends" not in again.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("slips:rar=0.1", "world 'slips': unknown parameter 'rar': did you mean 'rare'?"),
        ("slips:rare=0.3", r"\[parameters.rare\]: the value 0.3 is not from 0 to 0.2; change"),
        ("slips:rare=much", r"slips \[parameters.rare\] default: this .* a number .* got 'much'"),
        ("slips:rare=nan", "this should be a number"),
        ("slips:rare=0.1,slip", "'slip' is not name=value"),
        ("slips:rare=0.1,rare=0.1", "'rare=0.1' has a name twice"),
        ("paper:rare=0.1", "world 'paper' has no parameters, got rare; leave them out"),
    ],
)
def test_wrong_values_are_explained(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        World.load(name)


def test_a_value_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="'rare' is given twice, once in 'slips:rare=0.1'"):
        World.load("slips:rare=0.1", rare=0.1)
    with pytest.raises(UserError, match="this should be a number, got True"):
        World.load("slips", rare=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('cat = "lazy"', 'cat = "lasy"', "unknown parameter 'lasy': did you mean 'lazy'?"),
        ("default = 0.3", "default = 0.95", "[parameters.lazy]: the value 0.95 is not from 0 to"),
        ("default = 0.3, ", "", "[parameters.lazy]: the key 'default' is missing"),
        ("lazy = {", "lambda = {", "[parameters]: the name of a parameter"),
        ("spare = {", "idle = { default = 0 }\nspare = {", "nothing uses the parameter 'idle'"),
        ('"2*spare"', '"5*spare"', "'5*spare' is wrong: input should be less than or equal to 1"),
        ('"8*spare"', '"spare - 1"', "'spare - 1' is wrong: input should be greater than or"),
        ('"8*spare"', '"0*spare"', "no event has the word"),
    ],
)
def test_mistakes_in_a_file_are_explained(old: str, new: str, message: str) -> None:
    assert old in TEXT
    assert message in problems_of(TEXT.replace(old, new, 1))


def test_a_world_extends_one_of_the_package(paper: World) -> None:
    plain = World.from_toml('extends = "paper"\nname = "mine"')
    assert plain.name == "mine"
    assert plain.fingerprint == paper.fingerprint
    features = [*(paper.file.features or ()), "cake"]
    more = World.from_toml(
        f'extends = "slips"\nname = "more"\nfeatures = {features}\n'
        'parameters.rare.default = 0.05\nwords.food.cake = "cake"\n'
        'actions.eat = { patient = "food", location = "kitchen" }\n'
    )
    assert more.parameters == {"rare": 0.05, "slip": 0.02}
    assert more.true_beliefs("the girl eats", "patient")["cake"] == pytest.approx(1 / 7)
    assert "there is no world 'papr' in the package: did you mean 'paper'?" in problems_of(
        'extends = "papr"'
    )


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


REFUSED = """
    + | 1 + | () | 1,2 | 1 2 | rare slip_2 | 1//2 | 9**9**9**9 | 1 if rare else 2 | 1if 2else 3
    | rare < 1 | not rare | True | 1j | 0x1f | rare.real | rare() | __import__('os') | [1] | '1'
    | lambda: 1 | (1 | 1) | 1;2 | a := 1 | 1_000 | 1e | 1e999 | 1e-9999 | 1.5.2 | 1 # | rare! | ½
    | ١
"""


@pytest.mark.parametrize(
    "text", ["", "1\n+1", "\0", "1" * 300, *map(str.strip, REFUSED.split(" | "))]
)
def test_nothing_else_is_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        evaluate(text, Scope(VALUES))
