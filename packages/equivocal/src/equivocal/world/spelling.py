"""Text: spellings of words, `Parser` to read sentences and `spell_sentences` to write them.

The parser ignores articles, inflection, capitals and punctuation, and does not ask whether a
sentence makes sense: any order of known words is accepted, because the model is meant to be tested
with anomalous sentences. English inflection follows rules, with exceptions from the file. Regular
forms are made here so that a world file needs only its irregular ones. A *regular* form that two
words share is read as neither; a clash of *declared* forms is an error.

An irregular word belongs in the world file; only rules that hold for many words belong here.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from equivocal.world.derivations import Derivations
from equivocal.world.errors import UnknownWordError
from equivocal.world.grammar import NO_FILLER, Construction, Grammar
from equivocal.world.schema import VerbForms, WorldFile
from lastlayer.errors import UserError, did_you_mean, join_names

__all__ = ["Constituent", "drop_articles", "fold", "inflect_verb"]


_VOWELS = "aeiou"
MAX_CHARACTERS = 2_000  # of a sentence


def split_words(text: str) -> list[str]:
    """Split a text into words as they are compared: no capitals or punctuation, hyphens as blanks.

    >>> split_words("At the X-ray, Tom's dog…")
    ['at', 'the', 'x', 'ray', "tom's", 'dog']
    """
    folded = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    # letters, marks (with which many scripts write vowels) and numbers; the rest separates words
    kept = (c if c == "'" or unicodedata.category(c)[0] in "LMN" else " " for c in folded)
    return [word for part in "".join(kept).split() if (word := part.strip("'"))]


def fold(spelling: str) -> str:
    """Return the form in which spellings are compared."""
    return " ".join(split_words(spelling))


def is_readable(spelling: str) -> bool:
    """Return whether a spelling has words and blanks only, which is all that the parser keeps."""
    plain = unicodedata.normalize("NFC", spelling).casefold().replace("’", "'")
    return bool(fold(spelling)) and " ".join(plain.replace("-", " ").split()) == fold(spelling)


def drop_articles(text: str) -> str:
    """Return a constituent in the form in which it is compared; an article alone is kept.

    >>> drop_articles("In the Morning,"), drop_articles("during+dinner"), drop_articles("The")
    ('in morning', 'during dinner', 'the')
    """
    words = split_words(text)
    return " ".join([word for word in words if word not in _SKIPPED] or words)


def _has_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2:-1] not in _VOWELS


def _is_doubling(word: str) -> bool:
    """Return whether a word doubles its last letter before -ed and -ing, as chop and hug do."""
    return bool(re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", word))


def _add_s(word: str) -> str:
    if _has_consonant_y(word):
        return word[:-1] + "ies"
    hissing = word.endswith(("s", "x", "z", "ch", "sh"))
    return word + ("es" if hissing or re.search(r"[^aeiou]o$", word) else "s")


def _add_ed(word: str) -> str:
    if _has_consonant_y(word):
        return word[:-1] + "ied"
    if word.endswith("e"):
        return word + "d"
    return word + (word[-1] if _is_doubling(word) else "") + "ed"


def _add_ing(word: str) -> str:
    if word.endswith("ie"):
        return word[:-2] + "ying"
    if word.endswith("e") and not word.endswith(("ee", "oe", "ye")):
        return word[:-1] + "ing"
    return word + (word[-1] if _is_doubling(word) else "") + "ing"


def inflect_verb(word: str, form: str, irregular: VerbForms | None = None) -> str:
    """Inflect a verb; of a phrase such as "look at", the first word is inflected.

    >>> inflect_verb("look at", "third"), inflect_verb("go", "third")
    ('looks at', 'goes')
    >>> inflect_verb("like", "progressive"), inflect_verb("lie", "progressive")
    ('liking', 'lying')
    >>> inflect_verb("carry", "past"), inflect_verb("chop", "past")
    ('carried', 'chopped')
    >>> inflect_verb("eat", "participle", VerbForms(past="ate", participle="eaten"))
    'eaten'
    """
    irregular = irregular or VerbForms()
    given = getattr(irregular, form, None)
    if form == "participle" and given is None:
        given = irregular.past  # fed, read: one form for both
    if given is not None:
        return str(given)
    head, _, rest = word.partition(" ")
    rules = {"third": _add_s, "past": _add_ed, "participle": _add_ed, "progressive": _add_ing}
    return " ".join(filter(None, [rules[form](head) if form in rules else head, rest]))


def list_declared_spellings(file: WorldFile) -> Iterator[tuple[str, str, str]]:
    """Yield (table, spelling, word) for every spelling the file itself gives."""
    for cls, words in file.words.items():
        for word in words:
            yield f"[words.{cls}]", word, word
    for word, spellings in file.forms.items():
        for spelling in spellings:
            yield "[forms]", spelling, word
    for word, forms in file.verbs.items():
        for spelling in forms.model_dump(exclude_none=True).values():
            yield "[verbs]", spelling, word


def _list_regular_spellings(file: WorldFile) -> Iterator[tuple[str, str]]:
    verbs = {spec.action or name for name, spec in file.actions.items()}
    for words in file.words.values():
        for word in words:
            if word not in verbs:
                for noun in (word, *file.forms.get(word, ())):
                    yield _add_s(noun), word
                    yield f"{noun}s", word  # photos, where the rule gives photoes
                continue
            irregular = file.verbs.get(word)
            for form in ("third", "past", "participle", "progressive"):
                yield inflect_verb(word, form, irregular), word
            # "was eating" must not be taken for the passive "was eaten"
            progressive = inflect_verb(word, "progressive", irregular)
            for auxiliary in ("is", "are", "was", "were"):
                yield f"{auxiliary} {progressive}", word


def collect_spellings(file: WorldFile) -> dict[str, str]:
    """Return every spelling the parser understands, folded, and the word it stands for."""
    declared: dict[str, str] = {}
    for _, spelling, word in list_declared_spellings(file):
        declared.setdefault(fold(spelling), word)
    owners: dict[str, set[str]] = defaultdict(set)
    for spelling, word in _list_regular_spellings(file):
        owners[fold(spelling)].add(word)
    regular = {spelling: next(iter(words)) for spelling, words in owners.items() if len(words) == 1}
    return regular | declared


def spell_sentences(derivations: Derivations, file: WorldFile, grammar: Grammar) -> tuple[str, ...]:
    """Put each derivation into words that the parser reads back."""
    pieces = [_spell_roles(construction, file, grammar) for construction in grammar.constructions]
    columns = (derivations.fillers, derivations.said, derivations.construction)
    return tuple(
        " ".join(words[filler[role]] for role, words in pieces[number] if said[role])
        for filler, said, number in zip(*(column.tolist() for column in columns), strict=True)
    )


def _spell_roles(
    construction: Construction, file: WorldFile, grammar: Grammar
) -> list[tuple[int, list[str]]]:
    """Return (role, the text of every word in that role) in the construction's order."""
    lexicon, pieces = grammar.lexicon, []
    for role in construction.order:
        words = list(lexicon.words)
        if role == grammar.action_role:
            form = construction.verb_form
            words = [inflect_verb(word, form, file.verbs.get(word)) for word in words]
        every = np.arange(len(words), dtype=np.int32)
        for number, token in enumerate(construction.find_markers(role, every).tolist()):
            if token != NO_FILLER:
                words[number] = f"{file.markers[lexicon.tokens[token]][0]} {words[number]}"
        pieces.append((role, words))
    return pieces


# Words that are skipped, because the model has no input for them; a world may declare them.
_SKIPPED = frozenset(
    split_words("a an the this that these those some my your his her its our their")
)
# words that passives need; a world with passives has some of them
_PASSIVE = frozenset(split_words("am are be been being by is was were"))


@dataclass(frozen=True)
class Constituent:
    """The input of the model at one step: a word, perhaps with a marker."""

    text: str  # without articles, capitals and punctuation
    word: str
    marker: str | None = None
    read: str = field(default="", compare=False)  # as typed, with all of that

    @property
    def tokens(self) -> tuple[str, ...]:
        """Input tokens switched on together, in the order heard."""
        return (self.word,) if self.marker is None else (self.marker, self.word)


@dataclass(frozen=True)
class Utterance:
    """A parsed sentence or prefix of one."""

    constituents: tuple[Constituent, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """One label per constituent, as typed: ("during dinner", "woman", "eats")."""
        return tuple(constituent.text for constituent in self.constituents)

    @property
    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """Input tokens of each constituent: (("during/at", "dinner"), ("woman",), ("eat",))."""
        return tuple(constituent.tokens for constituent in self.constituents)

    def first(self, size: int) -> "Utterance":
        """Return a prefix of the utterance.

        Parameters
        ----------
        size : int
            How many constituents it has.

        Returns
        -------
        Utterance
            The first `size` constituents.
        """
        return Utterance(self.constituents[:size])

    def __str__(self) -> str:
        return " ".join(self.words)

    def __len__(self) -> int:
        return len(self.constituents)

    def __iter__(self) -> Iterator[Constituent]:
        return iter(self.constituents)


@dataclass(frozen=True)
class Spellings:
    """All spellings that the parser understands, folded."""

    words: dict[str, str]  # spelling: word
    markers: dict[str, list[str]]  # spelling: markers written so
    usual_words: dict[str, set[str]]  # marker: words that follow it in some construction
    longest: int  # phrase, in words


def _split_regions(text: str, ends: list[int]) -> list[str]:
    """Split a text as typed into regions; `ends` is how many words are left after each.

    >>> _split_regions("The dog, perhaps, chases the cat.", [4, 2, 0])
    ['The dog,', 'perhaps, chases', 'the cat.']
    """
    pieces = text.split()
    left = [len(split_words(" ".join(pieces[start:]))) for start in range(len(pieces) + 1)]
    # a piece such as "ice-cream" may have several words; it belongs to the first that ends in it
    cuts = [next(n for n, count in enumerate(left) if count <= end) for end in ends]
    cuts[-1] = len(pieces)
    return [" ".join(pieces[start:stop]) for start, stop in zip([0, *cuts], cuts, strict=False)]


class Parser:
    """Parses text of one world; `spellings` is all that another parser needs."""

    def __init__(self, file: WorldFile, usual_words: dict[str, set[str]], source: str) -> None:
        """`usual_words`: marker → words that follow it in some construction of the world."""
        self._source = source
        words, markers = collect_spellings(file), dict[str, list[str]]()
        for marker, spellings in file.markers.items():
            for spelling in dict.fromkeys(map(fold, (marker, *spellings))):
                markers.setdefault(spelling, []).append(marker)
        longest = max(len(phrase.split()) for phrase in (*words, *markers))
        self.spellings = Spellings(words, markers, usual_words, longest)

    def parse(self, text: str) -> Utterance:
        """Parse a text; `UnknownWordError` names the nearest known words."""
        if not isinstance(text, str):
            raise UserError(f"a sentence is text, got {type(text).__name__}.")
        if len(text) > MAX_CHARACTERS:
            raise UserError(
                f"the sentence has {len(text)} characters, at most {MAX_CHARACTERS}; shorten it."
            )
        heard = split_words(text)
        constituents, ends = list[Constituent](), list[int]()  # ends: words left after each
        waiting: str | None = None  # a marker's spelling that waits for its word
        while heard:
            size = self._match_phrase(heard)
            if size == 0:
                if heard[0] not in _SKIPPED:
                    raise self._explain_unknown(heard[0])
                heard = heard[1:]
                continue
            phrase, heard = " ".join(heard[:size]), heard[size:]
            if phrase in self.spellings.words:
                constituents.append(self._build_constituent(phrase, waiting))
                ends.append(len(heard))
                waiting = None
            elif waiting is not None:
                raise UserError(f"{waiting!r} is followed by {phrase!r}; put a word between them.")
            else:
                waiting = phrase
        if waiting is not None:
            raise UserError(f"{waiting!r} is the last word; add the word it belongs to.")
        if not constituents:
            raise UserError(
                f"the sentence {text!r} is empty; write at least one word of the world."
            )
        regions = _split_regions(text, ends)
        parts = zip(constituents, regions, strict=True)
        return Utterance(tuple(replace(part, read=region) for part, region in parts))

    def _match_phrase(self, heard: list[str]) -> int:
        """Return how many words the longest known phrase at the start has; 0 for none."""
        for size in range(min(self.spellings.longest, len(heard)), 0, -1):
            phrase = " ".join(heard[:size])
            if phrase in self.spellings.words or phrase in self.spellings.markers:
                return size
        return 0

    def _build_constituent(self, phrase: str, waiting: str | None) -> Constituent:
        word = self.spellings.words[phrase]
        if waiting is None:
            return Constituent(phrase, word)
        candidates = self.spellings.markers[waiting]
        # "at" may stand before a time or a place; the word that follows decides
        usual = [m for m in candidates if word in self.spellings.usual_words.get(m, ())]
        return Constituent(f"{waiting} {phrase}", word, (usual or candidates)[0])

    def _explain_unknown(self, word: str) -> UnknownWordError:
        words, markers = self.spellings.words, self.spellings.markers
        known = [*dict.fromkeys(words.values()), *markers]
        if word in _PASSIVE and _PASSIVE.isdisjoint((*words, *markers)):
            return UnknownWordError(
                f"unknown word {word!r}: this world has active sentences only; for passives, ask "
                "another one, such as --world sg2018; its networks are trained first, which takes "
                "some minutes."
            )
        hint = did_you_mean(word, known, most=3)
        way_out = f"; `equivocal world show {self._source}` lists the words."
        if self._source.startswith("<"):  # made from text, so there is nothing to show
            way_out = f"; words are {join_names(known)}."
        return UnknownWordError(f"unknown word {word!r}{hint or way_out}")
