"""How words are spelled in running text: English inflection by rule, exceptions from the file.

Regular forms are made here so that a world file needs only its irregular ones. Two words that
happen to share a *regular* form give it up (the parser then asks); a *declared* clash is an error.
"""

from collections import defaultdict
from collections.abc import Iterator

from equivocal.world.schema import VerbForms, WorldFile

__all__ = ["declared_spellings", "fold", "known_spellings", "verb_form"]

_VOWELS = "aeiou"


def fold(text: str) -> str:
    """The form in which spellings are compared: case and outer blanks do not count."""
    return " ".join(text.casefold().split())


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in _VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def _with_ed(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in _VOWELS:
        return word[:-1] + "ied"
    return word + ("d" if word.endswith("e") else "ed")


def _with_ing(word: str) -> str:
    return (word[:-1] if word.endswith("e") and not word.endswith("ee") else word) + "ing"


def verb_form(word: str, form: str, irregular: VerbForms | None = None) -> str:
    """A form of a verb; of a phrase such as "look at", its first word is inflected.

    >>> verb_form("look at", "third"), verb_form("like", "progressive"), verb_form("carry", "past")
    ('looks at', 'liking', 'carried')
    >>> verb_form("eat", "participle", VerbForms(past="ate", participle="eaten"))
    'eaten'
    """
    irregular = irregular or VerbForms()
    given = getattr(irregular, form, None)
    if form == "participle" and given is None:
        given = irregular.past  # fed, read: one form for both
    if given is not None:
        return str(given)
    head, _, rest = word.partition(" ")
    rules = {"third": _with_s, "past": _with_ed, "participle": _with_ed, "progressive": _with_ing}
    return " ".join(filter(None, [rules[form](head) if form in rules else head, rest]))


def declared_spellings(file: WorldFile) -> Iterator[tuple[str, str]]:
    """(spelling, word) for every spelling the file itself gives."""
    for words in file.words.values():
        for word in words:
            yield fold(word), word
    for word, spellings in file.forms.items():
        for spelling in spellings:
            yield fold(spelling), word
    for word, forms in file.verbs.items():
        for spelling in forms.model_dump(exclude_none=True).values():
            yield fold(spelling), word


def _regular_spellings(file: WorldFile) -> Iterator[tuple[str, str]]:
    verbs = {spec.action or name for name, spec in file.actions.items()}
    for words in file.words.values():
        for word in words:
            if word not in verbs:
                yield fold(_with_s(word)), word
                continue
            irregular = file.verbs.get(word)
            for form in ("third", "past", "participle", "progressive"):
                yield fold(verb_form(word, form, irregular)), word
            # "was eating" must not be taken for the passive "was eaten"
            progressive = verb_form(word, "progressive", irregular)
            for auxiliary in ("is", "are", "was", "were"):
                yield fold(f"{auxiliary} {progressive}"), word


def known_spellings(file: WorldFile) -> dict[str, str]:
    """Every spelling the parser understands, and the word it stands for."""
    declared = dict(declared_spellings(file))
    owners: dict[str, set[str]] = defaultdict(set)
    for spelling, word in _regular_spellings(file):
        owners[spelling].add(word)
    regular = {spelling: next(iter(words)) for spelling, words in owners.items() if len(words) == 1}
    return regular | declared
