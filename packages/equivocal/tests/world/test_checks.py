"""Broken world files: each fault has its own message with file, table and fix."""

import re
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


ORDER = 'order = ["agent", "action", "patient", "place"]'
CHASE, CONSTRUCTION = "my.toml [actions.chase]", "my.toml [[constructions]] active"
FAULTS = [  # in the text, in its place, and what is said; … stands for anything
    # names, kinds of values and keys
    ("dog = 0.6, cat", "dgo = 0.6, cat", f"{CHASE} agent: unknown single word 'dgo': did you mean"),
    (ORDER, ORDER.replace("pa", "ap", 1), f"{CONSTRUCTION} order: unknown role 'aptient': did you"),
    ("mentioned = {", "mentoined = {", f"{CONSTRUCTION}: unknown key 'mentoined': did you mean"),
    (" place = 0.5", " place = 1.5", f"{CONSTRUCTION} mentioned place: 1.5 is wrong: input"),
    ('name = "active"', "name = 5", "my.toml [[constructions]] number 1 name: 5 is wrong"),
    ('"garden"', '" "', "my.toml [name]: ' ' is wrong: this should not be empty"),
    ('name = "garden"', "", "my.toml: the key 'name' is missing; add it."),
    ("dog = 0.6, cat", "dog = 'x', cat", f"{CHASE} agent dog: this should be a number … got 'x'"),
    ('{ agent = "cat" }', "{ agent = [] }", f"{CHASE} patient when agent: [] … at least one"),
    ('roles = ["agent", ', 'roles = "agent" #', "[roles]: 'agent' is wrong: this should be a l"),
    ("[[constructions]]", "[constructions]", "write each construction under [[constructions]]"),
    ('place = "lawn"', "place = lawn", "my.toml is not TOML: … lacks its quotes"),
    # words, features and spellings
    ('"bone"]', '"bone"]\ndog = ["toy"]', "[words.things]: duplicate name 'dog', taken by [words"),
    ('"male", "boy"]', '"female", "girl"]', "[words.children] boy: … same features … girl"),
    ('"barks", "dog"]', '"barks", "role:dog"]', "[words.animals] dog: … 'role:dog' … rename it"),
    ('description = "', 'features = ["person"]\ndescription = "', "feature 'boy'; declare it, or"),
    ('description = "', 'unused_features = ["wings"]\ndescription = "', "silent feature 'wings'"),
    ('["mice"]', '["mi/ce"]', "[forms]: 'mouse' is spelled 'mi/ce', which cannot be read"),
    ('"in"]', '"chasing"]', "[markers]: 'chasing' is a spelling of both 'chase' and 'on'"),
    ('["mice"]', '["mice", "finds"]', "[verbs]: 'finds', the third form of 'find', is read as 'mo"),
    ('"garden"', '"gar\\u001bden"', "has a control character; remove it."),
    ('"animals"]\n', '"more"]\nmore = ["beings"]\n', "[groups] … beings → more → beings"),
    # events
    ("cat = 0.3", "cat = 0.2", f"{CHASE} agent: the probabilities sum to 0.9 … '1/3'"),
    ('    { then = ["dog", "ball"] }, # otherwise\n', "", "patient: no rule for 'patient' fits a"),
    ('agent = "cat" }', 'place = "lawn" }, then = "cat" }, { when = { patient = "cat" }', "circle"),
    ('{ when = { agent = "cat" }, then = "mo', '{ then = "mo', "rule for 'patient' has no `when`"),
    ('{ agent = "cat" }', '{ action = "cat" }', "`when` for 'patient' asks for 'action', which"),
    ("[actions.find]", "[actions.verbs]", "my.toml [actions.verbs]: unknown word 'verbs'"),
    ('hedge = ["', 'pond = ["wet"]\nhedge = ["', "[words.places] pond: no event has the word"),
    ('"place"]', '"place", "tool"]', "my.toml roles: no action fills the role 'tool'"),
    # constructions
    ('"active"', '"active"\nprobability = 0.5', f"{CHASE}: … sum to 0.5 … `probability`"),
    ('"active"', '"active"\nactions = "chase"', "[actions.find]: no construction puts action"),
    (f"{ORDER}\nmentioned", 'order = ["place"]\nmentioned', "sentence about action 'find' may be"),
    (', "place"]\nment', "]\nment", f"{CONSTRUCTION}: `mentioned` … 'place' … `order`"),
    (' place = "on" }', ' place = "on" }\nadds = { place = "open" }', "`adds` gives 'open', which"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), FAULTS)
def test_each_fault_has_its_message(old: str, new: str, message: str) -> None:
    text = read_example()
    assert old in text
    found = problems_of(text.replace(old, new, 1))
    pattern = ".*".join(map(re.escape, message.split(" … ")))
    assert any(re.search(pattern, line) for line in found), found
    assert all(line.startswith("my.toml") for line in found)


def test_declared_features_must_be_used(garden: World) -> None:
    features = [unit for unit in garden.units if not unit.startswith("role:")]
    declared = f"features = {[*features, 'wings']!r}\n".replace("'", '"')
    text = read_example().replace('name = "garden"', f'{declared}name = "garden"')
    (problem,) = problems_of(text)
    assert problem.startswith("my.toml features: no word has the feature 'wings'")
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
    text = read_example().replace("dog = 0.6, cat", "dgo = 0.6, cat")
    assert len(problems_of(text.replace('"mouse" }', '"moose" }'))) == 2


def test_missing_files_say_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="equivocal world new .*my.toml"):
        World.load(tmp_path / "my.toml")


def test_files_with_a_byte_order_mark(tmp_path: Path, garden: World) -> None:
    (tmp_path / "my.toml").write_text(read_example(), encoding="utf-8-sig")
    assert World.load(tmp_path / "my.toml").fingerprint == garden.fingerprint


def test_folders_and_nonsense_are_not_worlds(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("\n")
    with pytest.raises(UserError, match=r"my\.toml is empty; remove it, and `equivocal world new"):
        World.load(tmp_path / "my.toml")
    with pytest.raises(UserError, match="is a folder; give the world file in it"):
        World.load(tmp_path)
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
