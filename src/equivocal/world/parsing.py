"""Running text to constituents: articles, inflection, capitals, punctuation, phrases.

Nothing here asks whether a sentence makes sense. Any order of known words is accepted, because
anomalous sentences are what the model is for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.world.errors import UnknownWordError
from equivocal.world.schema import WorldFile
from equivocal.world.spelling import collect_spellings, fold, split_words

# Words the model has no input for and loses nothing by; a world that uses one keeps it.
_SKIPPED = frozenset(
    split_words("a an the this that these those some my your his her its our their")
)
# words that passives need; a world with passives has some of them
_PASSIVE = frozenset(split_words("am are be been being by is was were"))
MAX_CHARACTERS = 2_000


@dataclass(frozen=True)
class Constituent:
    """What the model hears at one moment: a word, perhaps with a marker."""

    text: str  # as it was typed, less articles
    word: str
    marker: str | None = None

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
    """How everything that the parser understands is written, folded."""

    words: dict[str, str]  # spelling: word
    markers: dict[str, list[str]]  # spelling: markers written so
    usual_words: dict[str, set[str]]  # marker: words that constructions put behind it
    longest: int  # phrase, in words


class Parser:
    """Text to `Utterance` for one world."""

    def __init__(self, file: WorldFile, usual_words: dict[str, set[str]], source: str) -> None:
        """`usual_words`: marker → words that the world's constructions put behind it."""
        self._source = source
        self._spellings = collect_spellings(file)
        self._markers: dict[str, list[str]] = {}  # spelling: markers written so
        for marker, spellings in file.markers.items():
            for spelling in {fold(marker), *map(fold, spellings)}:
                self._markers.setdefault(spelling, []).append(marker)
        self._usual_words = usual_words
        phrases = [*self._spellings, *self._markers]
        self._longest = max(len(phrase.split()) for phrase in phrases)

    def list_spellings(self) -> Spellings:
        """Return all that is needed to parse elsewhere as `parse` does."""
        return Spellings(self._spellings, self._markers, self._usual_words, self._longest)

    def parse(self, text: str) -> Utterance:
        """Parse a text; `UnknownWordError` names the nearest known words."""
        if not isinstance(text, str):
            raise UserError(f"a sentence is text, got {type(text).__name__}.")
        if len(text) > MAX_CHARACTERS:
            raise UserError(
                f"the sentence has {len(text)} characters, at most {MAX_CHARACTERS}; shorten it."
            )
        heard = split_words(text)
        constituents: list[Constituent] = []
        waiting: str | None = None  # a marker's spelling that waits for its word
        while heard:
            size = self._match_phrase(heard)
            if size == 0:
                if heard[0] not in _SKIPPED:
                    raise self._explain_unknown(heard[0])
                heard = heard[1:]
                continue
            phrase, heard = " ".join(heard[:size]), heard[size:]
            if phrase in self._spellings:
                constituents.append(self._build_constituent(phrase, waiting))
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
        return Utterance(tuple(constituents))

    def _match_phrase(self, heard: list[str]) -> int:
        """Return how many words the longest known phrase at the start has; 0 for none."""
        for size in range(min(self._longest, len(heard)), 0, -1):
            phrase = " ".join(heard[:size])
            if phrase in self._spellings or phrase in self._markers:
                return size
        return 0

    def _build_constituent(self, phrase: str, waiting: str | None) -> Constituent:
        word = self._spellings[phrase]
        if waiting is None:
            return Constituent(phrase, word)
        candidates = self._markers[waiting]
        # "at" may stand before a time or a place; the word that follows decides
        usual = [m for m in candidates if word in self._usual_words.get(m, ())]
        return Constituent(f"{waiting} {phrase}", word, (usual or candidates)[0])

    def _explain_unknown(self, word: str) -> UnknownWordError:
        known = [*dict.fromkeys(self._spellings.values()), *self._markers]
        if word in _PASSIVE and _PASSIVE.isdisjoint((*self._spellings, *self._markers)):
            return UnknownWordError(
                f"unknown word {word!r}: this world has active sentences only; for passives, ask "
                "another one, such as --world sg2018."
            )
        hint = did_you_mean(word, known, most=3)
        way_out = f"; `equivocal world show {self._source}` lists the words."
        if self._source.startswith("<"):  # made from text, so there is nothing to show
            way_out = f"; words are {join_names(known)}."
        return UnknownWordError(f"unknown word {word!r}{hint or way_out}")
