"""How words are spelled in running text, which `parsing` reads and `spell_sentences` writes.

English inflection goes by rule, with exceptions from the file.
Regular forms are made here so that a world file needs only its irregular ones. Two words that
happen to share a *regular* form give it up; a *declared* clash is an error.

An irregular word belongs in the world file; only rules that hold for many words belong here.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from equivocal.world.derivations import Derivations
from equivocal.world.grammar import NO_FILLER, Construction, Grammar
from equivocal.world.lexicon import Lexicon
from equivocal.world.schema import VerbForms, WorldFile

__all__ = ["fold", "inflect_verb"]

_VOWELS = "aeiou"


def split_words(text: str) -> list[str]:
    """Split a text into words as they are compared: no capitals or punctuation, hyphens as blanks.

    >>> split_words("At the X-ray, Tom's dog…")
    ['at', 'the', 'x', 'ray', "tom's", 'dog']
    """
    folded = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    # letters, marks (which many scripts write their vowels with), numbers; the rest separates
    kept = (c if c == "'" or unicodedata.category(c)[0] in "LMN" else " " for c in folded)
    return [word for part in "".join(kept).split() if (word := part.strip("'"))]


def fold(spelling: str) -> str:
    """Return the form in which spellings are compared."""
    return " ".join(split_words(spelling))


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
                    yield f"{noun}s", word  # photos, whatever potatoes do
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


def spell_sentences(
    derivations: Derivations, file: WorldFile, grammar: Grammar, lexicon: Lexicon
) -> tuple[str, ...]:
    """Put each derivation into words that the parser reads back."""
    pieces = [
        _spell_roles(construction, file, grammar, lexicon) for construction in grammar.constructions
    ]
    columns = (derivations.fillers, derivations.said, derivations.construction)
    return tuple(
        " ".join(words[filler[role]] for role, words in pieces[number] if said[role])
        for filler, said, number in zip(*(column.tolist() for column in columns), strict=True)
    )


def _spell_roles(
    construction: Construction, file: WorldFile, grammar: Grammar, lexicon: Lexicon
) -> list[tuple[int, list[str]]]:
    """Return (role, the text of every word in that role) in the construction's order."""
    pieces = []
    for role in construction.order:
        words = list(lexicon.words)
        if role == grammar.action_role:
            form = construction.verb_form
            words = [inflect_verb(word, form, file.verbs.get(word)) for word in words]
        every = np.arange(len(words), dtype=np.int32)
        for number, token in enumerate(construction.find_markers(role, every).tolist()):
            if token != NO_FILLER:
                words[number] = f"{file.markers[lexicon.tokens[token]][0]} {words[number]}"
        if construction.inserted is not None and construction.inserted[0] == role:
            _, inserted, before = construction.inserted
            extra = lexicon.words[inserted]
            words = [f"{extra} {word}" if before else f"{word} {extra}" for word in words]
        pieces.append((role, words))
    return pieces
