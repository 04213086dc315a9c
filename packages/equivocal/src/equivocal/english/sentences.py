"""English sentences whose truth is known: events and wordings of `english.toml`, put into words.

The world speaks of classes of words: "person handle thing". `lay_out` turns one of its derivations
into parts (class, role and form of every word), and `Surface.spell` puts members of the classes in
their places, with tense, number, articles and adjectives, none of which bears on who does what. As
all members of a class are equally likely, what is true of the classes is true of the words, and the
world knows it exactly, after each word, with slips, and for a listener who expects none:

    load_world(slip=0.02).true_beliefs("thing handled", filler="thing")
    load_world(slip=0.02).literal_beliefs("thing handled person", filler="thing")

A construction is a line of `surface.toml`, and with its frequency one of `english.toml`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from equivocal.store import read_toml
from equivocal.world import World
from equivocal.world.schema import VerbForms
from equivocal.world.spelling import inflect_verb

DATA = resources.files("equivocal.english") / "data"
ROLES = ("agent", "patient", "recipient", "instrument", "location")
OUTPUTS = (*ROLES, "happened")  # what is asked about a word, and whether the event happened
LETTERS = {"A": "agent", "P": "patient", "R": "recipient"}
ASSERTED = {"question": 0.5, "passive question": 0.5, "negated": 0.0, "negated passive": 0.0}
HELD_OUT = 0.25  # share of every class that only held-out sentences use
AUXILIARIES = {"be": {"past": ("was", "were"), "present": ("is", "are")}}
AUXILIARIES["do"] = {"past": ("did", "did"), "present": ("does", "do")}
CLEFTS = "subject cleft", "object cleft"
RELATIVES = "subject relative", "object relative"
TEST_CONSTRUCTIONS = "active", "passive", *CLEFTS, *RELATIVES, "passive cleft", "pseudo-cleft"

Lexicon = Literal["training", "held out"]
Tense = Literal["past", "present"]


class Part(NamedTuple):
    """One word of a sentence before it is spelled, or a noun phrase."""

    kind: str  # "noun", "verb", "be", "do", "closing" or "word"
    text: str = ""  # the function word, or the form of the verb
    role: str = ""  # of a noun, or of the noun that a verb agrees with


@dataclass(frozen=True)
class Sentence:
    """A sentence with what it means: the role of every noun, by the number of its word."""

    text: str
    roles: Mapping[int, str]
    happened: float  # 1: asserted, 0: denied, 0.5: asked
    construction: str
    kind: str = ""
    classes: str = ""  # the sentence of the world, whose truth the world knows exactly

    @property
    def words(self) -> list[str]:
        """The words, with the punctuation that follows them."""
        return self.text.split()

    def list_targets(self, word: int) -> list[float]:
        """Return the answers to `OUTPUTS` when a word is the probe."""
        return [*(float(self.roles.get(word) == role) for role in ROLES), self.happened]


def load_world(**parameters: float | str) -> World:
    """Load `english.toml` with values for its parameters, such as impossible=0.2."""
    return World.load(str(DATA / "english.toml"), **parameters)


def load_items() -> pd.DataFrame:
    """Load the pairs of the registered test: kind, agent, verb, patient, source."""
    with (DATA / "items.csv").open() as file:
        return pd.read_csv(file, keep_default_na=False)


def lay_out(template: str, said: Sequence[str], tense: Tense) -> Iterator[Part]:
    """Yield the parts of a sentence whose event has the roles that are said."""
    for symbol in template.split():
        head, _, letter = symbol.partition(":")
        subject = "patient" if "agent" not in said else "agent"
        role = subject if letter == "S" else LETTERS.get(letter or "P", "")
        if head in ("A", "P", "R", "S"):
            yield Part("noun", role=subject if head == "S" else LETTERS[head])
        elif head == "verb":
            yield Part("verb", tense, role)
        elif head in ("base", "participle"):
            yield Part("verb", head)
        elif head in AUXILIARIES:
            yield Part(head, tense, role if letter else "")
        elif head == "closing":
            yield Part("be", tense, role)
            yield Part("closing")
        elif head == "X":
            for name, preposition in (("instrument", "with"), ("location", "in")):
                if name in said:
                    yield Part("word", preposition)
                    yield Part("noun", role=name)
        else:
            yield Part("word", head)


@dataclass(frozen=True)
class Surface:
    """The templates and words of `surface.toml`."""

    content: dict[str, Any]

    @classmethod
    def load(cls) -> "Surface":
        """Load the file that comes with the package."""
        return cls(read_toml(str(DATA / "surface.toml")))

    def list_members(self, name: str, lexicon: Lexicon) -> list[str]:
        """List the words of a class on which listeners are trained, or those held out."""
        table = self.content["verbs" if name in self.content["verbs"] else "nouns"]
        members: list[str] = table[name if name != "other" else "person"].split()
        edge = round(len(members) * (1 - HELD_OUT))
        return members[:edge] if lexicon == "training" else members[edge:]

    def inflect(self, verb: str, form: str, *, plural: bool = False) -> str:
        """Inflect a verb that is written as base/past/participle, or as its base alone."""
        base, *given = verb.split("/")
        forms = VerbForms(**dict(zip(("past", "participle"), given, strict=False)))
        if form == "base" or (form == "present" and plural):
            return base
        return inflect_verb(base, {"present": "third"}.get(form, form), forms)

    def spell(
        self,
        parts: Sequence[Part],
        nouns: Mapping[str, str],
        verb: str,
        rng: np.random.Generator | None = None,
    ) -> tuple[str, dict[int, str]]:
        """Spell a sentence, plainly unless there is a generator that varies it.

        Returns
        -------
        text, roles
            The sentence, and the role of each noun by the number of its word.
        """
        phrases = {role: self._spell_phrase(noun, rng) for role, noun in nouns.items()}
        words: list[str] = []
        roles: dict[int, str] = {}
        for part in parts[:-1]:
            phrase, plural = phrases.get(part.role, ([""], False))
            if part.kind == "noun":
                words += phrase
                roles[len(words) - 1] = part.role
            elif part.kind == "verb":
                words.append(self.inflect(verb, part.text, plural=plural))
            elif part.kind in AUXILIARIES:
                words.append(AUXILIARIES[part.kind][part.text][plural])
            elif part.kind == "closing":
                closings = self.content["closings"]
                words.append(rng.choice(list(closings)) if rng else next(iter(closings)))
            else:
                words.append(part.text)
        if rng and parts[-2].kind != "closing" and rng.random() < self.content["rates"]["adverb"]:
            words.append(rng.choice(self.content["modifiers"]["adverbs"]))
        text = " ".join(words) + parts[-1].text
        return text[0].upper() + text[1:], roles

    def _spell_phrase(self, noun: str, rng: np.random.Generator | None) -> tuple[list[str], bool]:
        """Return a noun phrase as a list of words, and whether it is plural."""
        if rng is None:
            return ["the", noun], False
        rates = self.content["rates"]
        plural = bool(rng.random() < rates["plural"])
        chances = rates["determiners"]
        determiner = str(rng.choice(list(chances), p=list(chances.values())))
        words = [noun]
        if plural:
            words = [self.content["nouns"]["plurals"].get(noun) or _make_plural(noun)]
            determiner = "the" if determiner == "the" else "some"
        if rng.random() < rates["adjective"]:
            words.insert(0, str(rng.choice(self.content["modifiers"]["adjectives"])))
        if determiner == "a" and words[0][0] in "aeiou":
            determiner = "an"
        return [determiner, *words], plural


def _make_plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def draw_sentences(
    world: World, surface: Surface, size: int, seed: int, lexicon: Lexicon = "training"
) -> list[Sentence]:
    """Draw sentences of a world, in words of one part of the lexicon; the seed decides all."""
    rng = np.random.default_rng(seed)
    drawn: list[Any] = world.sample(size, rng).to_dataframe().to_dict("records")
    return [_put_into_words(row, surface, rng, lexicon) for row in drawn]


def _put_into_words(
    row: dict[str, Any], surface: Surface, rng: np.random.Generator, lexicon: Lexicon
) -> Sentence:
    heard, meant = _list_roles(row)
    classes = {role: row[meant[role]] for role in heard}
    pools: dict[str, list[str]] = {}
    nouns: dict[str, str] = {}
    for role, name in classes.items():
        pool = pools.setdefault(name.replace("other", "person"), [])
        if not pool:
            pool += rng.permutation(surface.list_members(name, lexicon)).tolist()
        nouns[role] = pool.pop()
    verb = str(rng.choice(surface.list_members(row["action"], lexicon)))
    tense: Tense = "present" if rng.random() < surface.content["rates"]["present"] else "past"
    construction = row["construction"]
    parts = list(lay_out(surface.content["templates"][construction], heard, tense))
    text, roles = surface.spell(parts, nouns, verb, rng)
    slipped = heard != list(meant.values())
    return Sentence(
        text=text,
        roles={number: meant[role] for number, role in roles.items()},
        happened=0.0 if slipped else ASSERTED.get(construction, 1.0),
        construction=construction,
        kind=_name_kind(row),
        classes=row["sentence"],
    )


def _list_roles(row: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the roles that are put into words, and the role that each of them has in the event."""
    said = {"instrument": "with tool" in row["sentence"], "location": "in place" in row["sentence"]}
    heard = [role for role in ROLES if row.get(role) and said.get(role, True)]
    meant = {role: role for role in heard}
    if row.get("noise"):  # a slip, in which agent and patient change places
        meant |= {"agent": "patient", "patient": "agent"}
    return heard, meant


def _name_kind(row: Mapping[str, Any]) -> str:
    """Name the kind of a drawn event."""
    pair = row.get("agent"), row.get("patient")
    if row["action"] == "treat":
        return "reversible"
    if (row["action"], pair[0]) == ("overpower", "weak"):
        return "unlikely"
    wrong = {"handle": pair[0] == "thing", "affect": pair[1] == "force"}
    return "impossible" if wrong.get(row["action"], False) else "plausible"


def spell_items(
    items: pd.DataFrame, surface: Surface, constructions: Sequence[str] = TEST_CONSTRUCTIONS
) -> list[Sentence]:
    """Spell every item, as it is and with its nouns exchanged, in every construction."""
    sentences = []
    for row in items.itertuples():
        pair = str(row.agent), str(row.patient)
        for version, nouns in (("plausible", pair), ("reversed", pair[::-1])):
            said = dict(zip(("agent", "patient"), nouns, strict=True))
            for name in constructions:
                parts = list(lay_out(surface.content["templates"][name], list(said), "past"))
                text, roles = surface.spell(parts, said, str(row.verb))
                sentences.append(Sentence(text, roles, 1.0, name, f"{row.kind} {version}"))
    return sentences
