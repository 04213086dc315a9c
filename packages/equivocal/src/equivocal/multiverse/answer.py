"""The answer of a match in plain words: does any specification give the paper's results?

`answer_in_words` compares the specifications of `equivocal multiverse --match` with the printed
facts; the last sentence lists the settings of the nearest one. `record/choices.toml` has the
phrases for each choice.
"""

from itertools import combinations
from typing import Any

import pandas as pd

from equivocal.multiverse.grid import CHOICES
from equivocal.multiverse.readings import (
    find_nearest,
    load_facts,
    read_record,
    relate_facts,
    tabulate_together,
)

__all__ = ["NOTE", "answer_in_words"]

MOST = 5  # most examples in a sentence
NOTE = "Settings of the nearest specification that are not the study's:"


def answer_in_words(matches: pd.DataFrame) -> tuple[str, ...]:
    """Say in plain words whether any specification gives the paper's results.

    The last sentence, which begins with `NOTE`, lists the settings of the nearest specification.
    """
    facts = load_facts()
    claims = [fact["id"] for fact in facts if fact["kind"] == "claim"]
    numbers = len(facts) - len(claims)
    printed = matches[matches["as_printed"]]
    parts = [_answer_yes_or_no(matches, printed, claims, len(facts))]
    nearest = find_nearest(matches)
    missed = [fact["text"] for fact in facts if fact["id"] in claims and nearest[fact["id"]] != 1]
    parts.append(
        f"The nearest specification meets {nearest['claims_met']:g} of {len(claims)} claims and "
        f"{nearest['numbers_met']:g} of {numbers} printed numbers. "
        f"{_describe_specification(nearest, matches)}"
    )
    if missed:
        parts.append(f"Claims that it misses: {'; '.join(_merge_tests(missed))}.")
    never = [fact for fact in facts if not (matches[fact["id"]] == 1).any()]
    if never:
        lost = [fact["text"] for fact in never if fact["kind"] == "claim"]
        parts.append(
            f"Never met: {len(never) - len(lost)} printed numbers and {len(lost)} claims"
            + (f" ({'; '.join(lost)})." if lost else ".")
        )
    if apart := _find_apart(matches):
        texts = {fact["id"]: fact["text"] for fact in facts}
        pairs = "; ".join(f"{texts[one]!r} with {texts[other]!r}" for one, other in apart[:MOST])
        parts.append(
            f"{len(apart)} pairs of claims are each met somewhere and never together, the most "
            f"frequent of them: {pairs}."
        )
    changed = _list_changed_choices(nearest, matches)
    settings = [f"{name} = {nearest[name]}" for name in changed]
    return (*parts, f"{NOTE} {', '.join(settings) or 'none'}.")


def _answer_yes_or_no(
    matches: pd.DataFrame, printed: pd.DataFrame, claims: list[str], facts: int
) -> str:
    """Answer yes, in part or no, first for specifications that keep all printed choices."""
    posteriors = matches["key"].nunique()
    each = f"posteriors: {posteriors:,}, readings of each: {len(matches) // posteriors}"
    tried = f"{len(matches):,} specifications ({each})"
    kept = f"{len(printed):,} of which keep the printed epochs, steps, dropout rate and prior"
    whole = printed["evidence"].astype(str).isin(["1", "1.0"])
    literal = printed[(printed["rows"] == "drawn pairs") & whole]
    stable = int((literal["step_size"] == "automatic").sum())
    kept += f" ({stable} of them with N = 10,000 pairs, each counted in full, and automatic steps)"
    for there, whose in ((printed, "as printed"), (matches, "not as printed")):
        complete = int((there["met"] == facts).sum())
        nearly = int((there["claims_met"] == len(claims)).sum())
        if complete:
            return f"Yes: of {tried}, {kept}, {complete} ({whose}) meet all {facts} facts."
        if nearly:
            return (
                f"In part: of {tried}, {kept}, {nearly} ({whose}) meet all {len(claims)} claims, "
                "but none also meets all printed numbers."
            )
    return f"No: of {tried}, {kept}, none meets all {len(claims)} claims of the paper at once."


def _find_apart(matches: pd.DataFrame) -> list[tuple[str, str]]:
    """Find pairs of claims that are each met somewhere but never together, most frequent first."""
    claims = [fact["id"] for fact in load_facts() if fact["kind"] == "claim"]
    related = relate_facts(tabulate_together(matches))
    named = related.loc[related["apart"], ["first", "second"]]
    apart = set(named.itertuples(index=False, name=None))
    pairs = [pair for pair in combinations(claims, 2) if pair in apart]
    met = (matches[claims] == 1).sum()
    return sorted(pairs, key=lambda pair: -met[list(pair)].min())


def _merge_tests(texts: list[str]) -> list[str]:
    """Merge sentences that differ only in their end, "over networks" or "over items"."""
    found: dict[str, list[str]] = {}
    for text in texts:
        what, _, over = text.partition(" over ")
        found.setdefault(what, []).extend([over] if over else [])
    return [f"{what} over {' and '.join(by)}" if by else what for what, by in found.items()]


def _list_changed_choices(row: pd.Series, matches: pd.DataFrame) -> list[str]:
    """List the choices in which a specification differs from the study's own, the first row."""
    own = matches.iloc[0]
    return [name for name in CHOICES if row[name] != own[name]]


def _describe_specification(row: pd.Series, matches: pd.DataFrame) -> str:
    """Say in plain words where a specification differs from the study's own."""
    apart = _list_changed_choices(row, matches)
    if row["weight_decay"] == 0 and "weight_decay" in apart:
        apart = [name for name in apart if name != "decay"]  # without decay its kind is irrelevant
    sentences = []
    for phrases in read_record("choices").values():
        said = [_put_in_words(phrases[name], row[name]) for name in phrases if name in apart]
        if said:
            listed = " and ".join(filter(None, [", ".join(said[:-1]), said[-1]]))
            sentences.append(f"{phrases['subject']} {listed}.")
    return " ".join(sentences) or "It is the study's own."


def _put_in_words(phrase: str | dict[str, str], value: Any) -> str:
    """Fill a value into the phrase of its choice, or into the one of this very value."""
    chosen = phrase if isinstance(phrase, str) else phrase.get(str(value), phrase.get("other", ""))
    return chosen.format(f"{value:g}" if isinstance(value, float) else value)
