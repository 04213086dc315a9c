"""What was registered before the test was run has not changed since."""

import hashlib
import re

from equivocal.english.sentences import DATA, Surface, load_items
from equivocal.world.spelling import split_words

REGISTERED = "031348c7bbf304e6801e0a5d4b101d6a5c9151c96425b36fb8593a6d742bfbb8"


def _hash(name: str) -> str:
    return hashlib.sha256((DATA / name).read_bytes()).hexdigest()


def test_the_registration_is_as_it_was_before_the_test():
    assert _hash("registration.md") == REGISTERED


def test_the_files_that_decide_the_sentences_are_the_registered_ones():
    listed = re.findall(r"([0-9a-f]{64})  (\S+)", (DATA / "registration.md").read_text())
    assert {name for _, name in listed} == {"english.toml", "surface.toml", "items.csv"}
    assert all(_hash(name) == digest for digest, name in listed)


def test_no_noun_and_no_verb_of_the_items_is_trained_on():
    content = Surface.load().content
    nouns = {word for members in content["nouns"].values() for word in _list(members)}
    verbs = {verb.split("/")[0] for text in content["verbs"].values() for verb in text.split()}
    items = load_items()
    assert nouns.isdisjoint({*items["agent"], *items["patient"]})
    assert verbs.isdisjoint(items["verb"].str.split("/").str[0])
    assert len(items) >= 200


def _list(members: str | dict[str, str]) -> list[str]:
    return split_words(members) if isinstance(members, str) else list(members)
