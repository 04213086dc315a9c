"""Matches the words that participants read to the constituents that the model hears, by sentence.

A *reading* is what one participant read of one item: words, or regions of several words, in the
order of their positions or of the file. Capitals, punctuation and apostrophes do not count. With
the sentence of the measures as a list of words, each of which belongs to a constituent,

    1  if every position is one of the measures and its region contains that constituent, that is it
    2  else the sentence's words must occur among those that were read, in order; other words, such
       as articles, may stand between them
    3  else those that were read, apart from articles, must occur in the sentence, as where only
       critical words were recorded

and in (2) and (3) only one way to match them may exist: a word that occurs twice must not be
ambiguous. Articles belong to the constituent that follows. A reading that fits none of these cannot
be aligned and is left out, with the reason. `region` says what stands for a constituent that was
read word by word: the sum of its responses, that of its last word, or each word.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from equivocal.people.trial_tables import convert_to_numbers
from equivocal.world.spelling import drop_articles, split_words
from lastlayer.errors import UserError, join_names

Region = Literal["last", "sum", "each"]
OUTSIDE = "not in the measures"
NOWHERE = "-1"  # the position of words of an item that the measures lack
GERMAN = {"der", "die", "das", "dem", "den", "des"}
GERMAN |= {"ein", "eine", "einem", "einen", "einer", "eines"}
Sentence = tuple[tuple[str, tuple[str, ...]], ...]  # position and words of each constituent

# item and condition, the words of a reading, and their numbers
Case = tuple[tuple[object, ...], tuple[str, ...], tuple[object, ...]]


class Aligned(NamedTuple):
    """Trials with the positions of the measures, and what became of every word."""

    trials: pd.DataFrame
    left_out: pd.DataFrame  # row, participant, item, condition, reason
    words: pd.DataFrame  # every word of every distinct reading, with its constituent
    notes: list[str]


class Reading(NamedTuple):
    """The constituent of every row of a reading, and why rows have none; both "" if outside."""

    positions: tuple[str, ...]
    reasons: tuple[str, ...]


def compare_words(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are compared.

    >>> compare_words("The X-ray, don’t!")
    ('the', 'x', 'ray', 'dont')
    """
    return tuple(word.replace("'", "") for word in split_words(text)) or (text,)


def is_article(word: str) -> bool:
    """Return whether a word is one that models do not hear, unless a sentence has it."""
    return word in GERMAN or drop_articles(f"{word} x") == "x"


def drop_own_articles(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a constituent or region without articles, unless there are only these."""
    return tuple(word for word in words if not is_article(word)) or words


def align_trials(trials: pd.DataFrame, measures: pd.DataFrame, region: Region) -> Aligned:
    """Give every word of the trials its position in the measures.

    Parameters
    ----------
    trials, measures : DataFrame
        The tables of `read_trials` and `read_measures`, both with words, measures with positions.
    region : {"last", "sum", "each"}
        Which response stands for a constituent of several words.

    Raises
    ------
    UserError
        Where no reading can be aligned.
    """
    keys = [key for key in ("item", "condition") if key in trials and key in measures]
    sentences = _collect_sentences(measures, keys)
    trials = trials.reset_index(drop=True).assign(position=trials.get("position"))
    number = pd.to_numeric(trials["position"], errors="coerce")
    order = trials.assign(number=number if number.notna().all() else 0.0)
    order = order.sort_values("number", kind="stable")
    places, reasons = (np.full(len(trials), "", dtype=object) for _ in range(2))
    readings = np.zeros(len(trials), int)
    known: dict[Case, Reading] = {}
    counts: Counter[Case] = Counter()
    groups = order.groupby(["participant", *keys], dropna=False, sort=False)
    for (_, *key), reading in groups[["word", "position"]]:
        case = (tuple(key), tuple(reading["word"].fillna("")), tuple(reading["position"]))
        if case not in known:
            known[case] = align_reading(*case[1:], sentences.get(case[0], ()))
        at = reading.index.to_numpy()
        places[at], reasons[at] = known[case].positions, known[case].reasons
        readings[at] = len(counts) + counts.total()
        counts[case] += 1
    misfit = reasons != ""
    left_out = trials.loc[misfit, ["row", "participant", *keys]].assign(reason=reasons[misfit])
    if not (places != "").any():
        raise UserError(_explain_no_reading(trials, left_out))
    inside = trials.assign(position=places, reading=readings)[places != ""]
    return Aligned(
        trials=_choose_responses(inside, region),
        left_out=left_out,
        words=_list_words(known, counts, keys),
        notes=_describe_rest(trials[(places == "") & ~misfit], left_out),
    )


def _collect_sentences(
    measures: pd.DataFrame, keys: list[str]
) -> dict[tuple[object, ...], Sentence]:
    """Return the constituents of every sentence in order, by item and condition."""
    table = measures[[*keys, "position", "word"]].dropna().drop_duplicates()
    for first in table[table.duplicated([*keys, "position"])].to_dict("records"):
        raise UserError(
            f"the measures have several words for item {first['item']}, position "
            f"{first['position']}, one of them {first['word']!r}; name the column of the trials "
            "that tells them apart (--condition), or keep one kind with --where."
        )
    place = pd.to_numeric(table["position"], errors="coerce")
    table = table.assign(place=place).sort_values("place", kind="stable")
    return {
        key: tuple(
            (position, drop_own_articles(compare_words(word)))
            for position, word in zip(own["position"], own["word"], strict=True)
        )
        for key, own in table.groupby(keys, sort=False)
    }


def align_reading(words: Sequence[str], numbers: Sequence[object], sentence: Sentence) -> Reading:
    """Return the constituent of each row of a reading.

    Parameters
    ----------
    words : sequence of str
        The word or region of each row.
    numbers : sequence
        The position that each row has in the trials, if any.
    sentence : Sentence
        Position and words of each constituent.

    Examples
    --------
    >>> sentence = (("1", ("during", "dinner")), ("2", ("pizza",)))
    >>> align_reading(["During", "dinner,", "the", "pizza"], [None] * 4, sentence).positions
    ('1', '1', '2', '2')
    """
    none = ("",) * len(words)
    if not sentence:  # the join says why
        return Reading((NOWHERE,) * len(words), none)
    rows = [compare_words(word) for word in words]
    expected = dict(sentence)
    if all(
        n in expected and _contains(row, expected[str(n)])
        for n, row in zip(numbers, rows, strict=True)
    ):
        return Reading(tuple(map(str, numbers)), none)
    heard = [(position, word) for position, part in sentence for word in part]
    known = {word for _, word in heard}
    said = [
        (row, word)
        for row, part in enumerate(rows)
        for word in part
        if word in known or any(map(str.isalnum, word))  # a dash is no word
    ]
    pairs, problem = _match(heard, said)
    if problem:
        return Reading(none, (problem,) * len(words))
    return _place_rows(words, pairs, said, sentence)


def _contains(row: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Return whether a region contains a constituent, apart from articles."""
    mine, theirs = (" ".join(drop_own_articles(words)) for words in (row, part))
    return f" {theirs} " in f" {mine} "


def _match(heard: list[tuple[str, str]], said: list[tuple[int, str]]) -> tuple[dict[int, str], str]:
    """Return the constituents of the words that were said, or why they cannot be matched."""
    names, words = [word for _, word in heard], [word for _, word in said]
    content = [n for n, word in enumerate(words) if word in names or not is_article(word)]
    spoken = [words[n] for n in content]
    whole, part = _embed(names, spoken), _embed(spoken, names)
    if whole is not None:
        pairs = {content[at]: heard[n][0] for n, at in enumerate(whole)}
        unique = whole == _embed(names, spoken, last=True)
    elif part is not None and spoken:
        pairs = {content[n]: heard[at][0] for n, at in enumerate(part)}
        unique = part == _embed(spoken, names, last=True)
    else:
        strange = [word for word in spoken if word not in names]
        why = f"{strange[0]!r} is not in its sentence of the measures" if strange else ""
        return {}, why or "its words are not those of the measures in this order"
    if not unique:
        twice = next(word for word in spoken if max(names.count(word), spoken.count(word)) > 1)
        return {}, f"{twice!r} occurs twice, and either could be meant"
    return pairs, ""


def _embed(short: Sequence[str], long: Sequence[str], *, last: bool = False) -> list[int] | None:
    """Return where the words of a list occur in another, in order, as early or late as possible."""
    if last:
        mirrored = _embed(short[::-1], long[::-1])
        return None if mirrored is None else [len(long) - 1 - at for at in mirrored[::-1]]
    found, start = [], 0
    for word in short:
        if word not in long[start:]:
            return None
        found.append(long.index(word, start))
        start = found[-1] + 1
    return found


def _place_rows(
    words: Sequence[str], pairs: dict[int, str], said: list[tuple[int, str]], sentence: Sentence
) -> Reading:
    """Return the constituent of each row; an article belongs to the next word."""
    positions, reasons = [""] * len(words), [""] * len(words)
    following = ""
    for n in reversed(range(len(said))):
        row, word = said[n]
        following = pairs.get(n) or (following if is_article(word) else "")
        if n in pairs and positions[row] not in ("", following):
            reasons[row] = f"the region {words[row]!r} holds several constituents"
        if n in pairs or not positions[row]:
            positions[row] = following
    for position, part in sentence:
        read = sum(place == position for place in pairs.values())
        if 0 < read < len(part):
            for row, place in enumerate(positions):
                if place == position:
                    reasons[row] = f"only a part of {' '.join(part)!r} is there"
    kept = tuple("" if why else place for place, why in zip(positions, reasons, strict=True))
    return Reading(kept, tuple(reasons))


def _choose_responses(inside: pd.DataFrame, region: Region) -> pd.DataFrame:
    """Return a row for each constituent of each reading, or (`each`) for each of its words."""
    keys = [inside["reading"], inside["position"]]
    groups = inside.groupby(keys, sort=False)
    if region == "each":
        return inside.assign(word_in_region=groups.cumcount() + 1).drop(columns="reading")
    if region == "sum":
        chosen = groups.tail(1).set_index(["reading", "position"], drop=False)
        response = convert_to_numbers(inside["response"]).groupby(keys).sum(skipna=False)
        words, number = groups["word"].agg(" ".join), groups.size()
        chosen = chosen.assign(response=response, word=words, words_read=number)
        return chosen.reset_index(drop=True)
    spelled = inside["word"].map(compare_words)
    # a row that is there twice is kept twice, so that it is noticed
    return inside[spelled == spelled.groupby(keys).transform("last")].drop(columns="reading")


def _explain_no_reading(trials: pd.DataFrame, left_out: pd.DataFrame) -> str:
    """Return the error message for trials of which no reading could be aligned."""
    commonest = left_out["reason"].value_counts().index[0]
    first = left_out[left_out["reason"] == commonest].iloc[0]
    word = trials.loc[first.name, "word"]
    return (
        f"no trial can be aligned with the measures: in line {first['row']} (column word, {word!r},"
        f" item {first['item']}), {commonest}; correct the words, the items or the conditions."
    )


def _describe_rest(outside: pd.DataFrame, left_out: pd.DataFrame) -> list[str]:
    """Return notes about trials that could not be aligned, and words that the model never hears."""
    notes = []
    if len(left_out):
        readings = left_out.drop_duplicates(["participant", *left_out.columns[2:-1]])
        named = [
            f"participant {first.participant}, item {first.item}, line {first.row} ({first.reason})"
            for first in readings.head(3).itertuples()
        ]
        notes.append(
            f"{len(readings)} sentences were not aligned, all or in part: {'; '.join(named)}"
            f"{'; …' if len(readings) > 3 else ''}"
        )
    if len(outside):
        notes.append(
            f"{len(outside)} rows have words that the measures have not, and are in no model: "
            f"{join_names(map(str, outside['word'].unique()), most=5)}"
        )
    return notes


def _list_words(known: dict[Case, Reading], counts: Counter[Case], keys: list[str]) -> pd.DataFrame:
    """List every word of every distinct reading with its constituent, or why it has none."""
    rows: list[dict[str, object]] = []
    for case, (positions, reasons) in known.items():
        key, words, numbers = case
        about = dict(zip(keys, key, strict=True))
        for word, number, place, why in zip(words, numbers, positions, reasons, strict=True):
            rows.append(
                about
                | {"numbered": number, "read": word, "position": place.replace(NOWHERE, "")}
                | {"why_not": why or ("" if place else OUTSIDE), "readings": counts[case]}
            )
    return pd.DataFrame(rows)
