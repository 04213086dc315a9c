"""Broken world files: each fault has its own message with file, table and fix."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivocal.world import World, WorldError, read_example
from lastlayer.errors import UserError


def problems_of(text: str) -> list[str]:
    with pytest.raises(WorldError) as caught:
        World.from_toml(text, "my.toml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "agent = { dog = 0.6, cat",
            "agent = { dgo = 0.6, cat",
            "my.toml [actions.chase] agent: unknown word 'dgo': did you mean 'dog'?",
        ),
        (
            "dog = 0.6, cat = 0.3",
            "dog = 0.6, cat = 0.2",
            "my.toml [actions.chase] agent: … sum to 0.9 … '1/3'",
        ),
        (
            'hedge = ["location"',
            'pond = ["location", "wet"]\nhedge = ["location"',
            "my.toml [words.places] pond: … 'pond'",
        ),
        (
            'boy = ["person", "child", "male", "boy"]',
            'boy = ["person", "child", "female", "girl"]',
            "my.toml [words.children] boy: … same features … girl",
        ),
        (
            'bone = ["thing", "white", "bone"]',
            'bone = ["thing", "white", "bone"]\ndog = ["thing", "toy"]',
            "my.toml [words.things]: duplicate name 'dog', taken by [words.animals]",
        ),
        (
            'roles = ["agent", "action", "patient", "place"]',
            'roles = ["agent", "action", "patient", "place", "tool"]',
            "my.toml roles: no action fills the role 'tool'",
        ),
        (
            'beings = ["children", "animals"]',
            'beings = ["children", "more"]\nmore = ["beings"]',
            "my.toml [groups] … beings → more → beings",
        ),
        (
            'order = ["agent", "action", "patient", "place"]',
            'order = ["agent", "action", "pateint", "place"]',
            "my.toml [[constructions]] active: unknown role 'pateint': did you mean 'patient'?",
        ),
        (
            "mentioned = {",
            "mentionned = {",
            "my.toml [[constructions]] number 1: unknown key 'mentionned': did you mean",
        ),
        ('name = "garden"', "", "my.toml: the key 'name' is missing; add it."),
        (
            "weight = 2",
            "weight = -2",
            "my.toml [actions.chase] weight: a weight is a number such as … not negative, got -2.",
        ),
        (
            "dog = 0.6, cat",
            "dog = 'much', cat",
            "my.toml [actions.chase] agent: a probability is a number such as 0.25",
        ),
        ("dog = 0.6, cat", "dog = -0.6, cat", "finite and not negative, got -0.6"),
        (
            '    { then = ["dog", "ball"] }, # otherwise\n',
            "",
            "my.toml [actions.chase] patient: no rule for 'patient' fits agent = 'boy', "
            "action = 'chase', place = 'lawn' … `when`",
        ),
        (
            "agent = { dog = 0.6, cat = 0.3, boy = 0.1 }",
            'agent = [{ when = { patient = "cat" }, then = "dog" }]',
            "the rules ask in a circle",
        ),
        (
            'name = "active"\n',
            'name = "active"\nprobability = 0.5\n',
            "my.toml [actions.chase]: … constructions … sum to 0.5 … `probability`",
        ),
        (
            'name = "active"\n',
            'name = "active"\nactions = ["chase"]\n',
            "my.toml [actions.find]: no construction puts action 'find' into words",
        ),
        ("[verbs]", "[verbs", "my.toml is not TOML: Expected ']'"),
        (
            'description = "Animals',
            'features = ["person", "child"]\ndescription = "Animals',
            "unknown feature 'female'; add it to `features`.",
        ),
        (
            'order = ["agent", "action", "patient", "place"]\nmentioned = { place = 0.5 } # said '
            "half of the time, and asked for all the same\n",
            'order = ["place"]\n',
            "my.toml [[constructions]] active: a sentence about action 'find' may be empty",
        ),
        (
            "[actions.find]",
            "[actions.verbs]",
            "my.toml [actions.verbs]: … word 'verbs'",
        ),
        (
            '    { when = { agent = "cat" }, then = "mouse" },\n',
            '    { then = "mouse" },\n',
            "my.toml [actions.chase] patient: rule 2 has no `when`, so the rules after it",
        ),
        (
            'order = ["agent", "action", "patient", "place"]',
            'order = ["agent", "action", "patient"]',
            "my.toml [[constructions]] active: `mentioned` … 'place' … `order`",
        ),
        (
            'description = "Animals',
            'unused_features = ["wings"]\ndescription = "Animals',
            "my.toml unused_features: … 'wings' … `features`",
        ),
        (
            'mouse = ["mice"]',
            'mouse = ["mi/ce"]',
            "my.toml [forms]: 'mouse' is spelled 'mi/ce', which cannot be read",
        ),
        (
            'on = ["on", "in"]',
            'on = ["on", "chasing"]',
            "my.toml [markers]: 'chasing' is a spelling of both 'chase' and 'on'",
        ),
        (
            'mouse = ["mice"]',
            'mouse = ["mice", "finds"]',
            "my.toml [verbs]: 'finds', the third form of 'find', is read as 'mouse'",
        ),
        (
            '"barks", "dog"]',
            '"barks", "role:dog"]',
            "my.toml [words.animals] dog: … 'role:dog' … rename it",
        ),
        ('name = "garden"', 'name = " "', "my.toml [name]: ' ' … empty"),
        (
            'roles = ["agent", "action", "patient", "place"]',
            'roles = "agent"',
            "my.toml [roles]: 'agent' is wrong: this should be a list.",
        ),
        ("[[constructions]]", "[constructions]", "write each construction under [[constructions]]"),
        (
            'when = { agent = "cat" }',
            'when = { action = "chase" }',
            "my.toml [actions.chase] patient: `when` … 'action'",
        ),
        (
            'markers = { place = "on" }',
            'markers = { place = "on" }\nadds = { place = "open" }',
            "my.toml [[constructions]] active: `adds` gives 'open', which some word has anyway",
        ),
        ('name = "garden"', 'name = "gar\\u001bden"', "has a control character; remove it."),
        (
            'when = { agent = "cat" }',
            "when = { agent = [] }",
            "[actions.chase] patient when agent: [] is wrong: name at least one here",
        ),
    ],
)
def test_each_fault_has_its_message(old: str, new: str, message: str) -> None:
    """One line has all parts of the message; … stands for anything."""
    text = read_example()
    assert old in text
    found = problems_of(text.replace(old, new, 1))
    pattern = ".*".join(map(re.escape, message.split(" … ")))
    assert any(re.search(pattern, line) for line in found), found
    assert all(line.startswith("my.toml") for line in found)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("mentioned = { place = 0.5 }", "mentioned = { place = 1.5 }", "mentioned place"),
        ("mentioned = {", "mentoined = {", "'mentoined'"),
        ('order = ["agent", "action", "patient", "place"]', 'order = "agent"', "order"),
        ('name = "active"', "name = 5", "name"),
    ],
)
def test_a_mistake_in_a_construction_is_reported_once(old: str, new: str, named: str) -> None:
    assert old in read_example()
    (problem,) = problems_of(read_example().replace(old, new, 1))
    assert problem.startswith("my.toml [[constructions]] number 1")
    assert named in problem


def test_a_word_without_quotes_is_suspected() -> None:
    (problem,) = problems_of(read_example().replace('place = "lawn"', "place = lawn", 1))
    assert "is not TOML" in problem
    assert "quotes" in problem


def test_declared_features_must_be_used(garden: World) -> None:
    features = [unit for unit in garden.units if not unit.startswith("role:")]
    declared = f"features = {[*features, 'wings']!r}\n".replace("'", '"')
    text = read_example().replace('name = "garden"', f'{declared}name = "garden"')
    (problem,) = problems_of(text)
    assert problem.startswith("my.toml features: no word has the feature 'wings'")
    assert "`unused_features`" in problem
    allowed = World.from_toml(
        text.replace("features =", 'unused_features = ["wings"]\nfeatures =', 1)
    )
    assert "wings" in allowed.units


def test_absent_may_stand_in_a_list() -> None:
    world = World.from_toml(read_example().replace('place = "lawn"', 'place = ["lawn", "absent"]'))
    chases = [event for event in world.events if event.roles["action"] == "chase"]
    placed = sum(event.probability for event in chases if "place" in event.roles)
    assert placed == pytest.approx(sum(event.probability for event in chases) / 2)


def test_all_problems_are_reported_at_once() -> None:
    text = (
        read_example().replace("dog = 0.6, cat", "dgo = 0.6, cat").replace('"mouse" }', '"moose" }')
    )
    assert len(problems_of(text)) == 2


def test_fractions_may_be_written_as_text() -> None:
    text = read_example().replace(
        "{ dog = 0.6, cat = 0.3, boy = 0.1 }", '{ dog = "1/3", cat = "1/3", boy = "1/3" }'
    )
    events = [e for e in World.from_toml(text).events if e.roles["action"] == "chase"]
    dogs = sum(e.probability for e in events if e.roles["agent"] == "dog")
    assert dogs / sum(e.probability for e in events) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["papper", "PAPER", "sg2019"])
def test_unknown_names_propose_the_nearest(name: str) -> None:
    with pytest.raises(UserError, match="did you mean '(paper|sg2018)'"):
        World.load(name)


def test_missing_files_say_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="equivocal world new .*my.toml"):
        World.load(tmp_path / "my.toml")


def test_files_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not UTF-8"):
        World.load(tmp_path / "my.toml")


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("\n")
    with pytest.raises(UserError, match=r"my\.toml is empty; remove it, and `equivocal world new"):
        World.load(tmp_path / "my.toml")


def test_files_with_a_byte_order_mark(tmp_path: Path, garden: World) -> None:
    (tmp_path / "my.toml").write_text(read_example(), encoding="utf-8-sig")
    assert World.load(tmp_path / "my.toml").fingerprint == garden.fingerprint


def test_folders_and_nonsense_are_not_worlds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; give the world file in it"):
        World.load(tmp_path)
    with pytest.raises(UserError, match="by name or path, got 5"):
        World.load(5)
    with pytest.raises(UserError, match="nested too deeply"):
        World.from_toml("roles = " + "[" * 50_000)


def test_prose_does_not_change_the_fingerprint_but_content_does(garden: World) -> None:
    text = read_example()
    prose = World.from_toml(text.replace("Animals and children in a garden.", "Something else."))
    synonym = World.from_toml(text.replace('["mice"]', '["mice", "vole"]'))
    content = World.from_toml(text.replace("weight = 2", "weight = 3"))
    assert synonym.fingerprint == garden.fingerprint
    assert prose.fingerprint == garden.fingerprint
    assert content.fingerprint != garden.fingerprint


LINES = read_example().splitlines()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_are_a_users_mistake_or_a_world(data: st.DataObject) -> None:
    """Lines dropped, doubled, swapped or cut: never any other error."""
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        here = data.draw(st.integers(0, len(lines) - 1))
        there = data.draw(st.integers(0, len(lines) - 1))
        what = data.draw(st.sampled_from(["drop", "double", "swap", "cut"]))
        if what == "drop" and len(lines) > 1:
            lines.pop(here)
        elif what == "double":
            lines.insert(there, lines[here])
        elif what == "swap":
            lines[here], lines[there] = lines[there], lines[here]
        else:
            lines[here] = lines[here][: data.draw(st.integers(0, len(lines[here])))]
    try:
        world = World.from_toml("\n".join(lines))
        assert sum(sentence.probability for sentence in world.sentences) == pytest.approx(1)
    except UserError as error:
        assert str(error)


VALUES = st.recursive(
    st.one_of(st.text(max_size=5), st.integers(-3, 3), st.booleans(), st.floats(-2, 2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(
    key=st.sampled_from([*tomllib.loads(read_example()), "parameters", "extends"]),
    value=st.one_of(VALUES, st.dictionaries(st.just("rare"), VALUES)),
)
def test_any_value_in_any_table_is_a_users_mistake_or_a_world(key: str, value: object) -> None:
    import tomli_w

    content = tomllib.loads(read_example()) | {key: value}
    try:
        World.from_toml(tomli_w.dumps(content))
    except UserError as error:
        assert str(error)
