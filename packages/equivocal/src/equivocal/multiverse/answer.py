"""The answer of a match in plain words: does any specification give the paper's results?

`answer_in_words` compares the specifications of `equivocal multiverse --match` with the printed
facts, for each reading of N. Specifications whose sampler diverged are left out.
"""

import pandas as pd

from equivocal.multiverse.grid import CHOICES
from equivocal.multiverse.readings import find_nearest, load_facts

__all__ = ["answer_in_words"]

N_READ_AS = {
    "every word": "N = 10,000 sentences, with all questions about them",
    "last word": "N = 10,000 sentences, with the questions after their last words",
    "drawn pairs": "N = 10,000 (constituent, probe) pairs",
}


def answer_in_words(matches: pd.DataFrame) -> tuple[str, ...]:
    """Say in plain words whether any specification gives the paper's results."""
    facts = load_facts()
    claims = [fact["id"] for fact in facts if fact["kind"] == "claim"]
    stable, posteriors = matches[matches["diverged"] == 0], matches["key"].nunique()
    kept = stable["key"].nunique()
    tried = (
        f"of {kept} distinct posteriors whose steps do not diverge (of {posteriors} that were "
        f"sampled; {len(matches) // posteriors} readings of each)"
    )
    if not kept:
        return (f"Unknown: {tried}, none can be compared; give smaller steps.",)
    complete = stable.loc[stable["met"] == len(facts), "key"].nunique()
    nearly = stable.loc[stable["claims_met"] == len(claims), "key"].nunique()
    if complete:
        first = f"Yes: {tried}, {complete} meet all {len(facts)} facts."
    elif nearly:
        first = (
            f"In part: {tried}, {nearly} meet all {len(claims)} claims, but none also meets all "
            "printed numbers."
        )
    else:
        first = f"No: {tried}, none meets all {len(claims)} claims of the paper at once."
    parts = [first, *(_describe_nearest(part, matches) for _, part in stable.groupby("rows"))]
    never = [fact for fact in facts if not (stable[fact["id"]] == 1).any()]
    if never:
        lost = [fact["text"] for fact in never if fact["kind"] == "claim"]
        named = f" ({'; '.join(lost)})" if lost else ""
        numbers = len(never) - len(lost)
        parts.append(f"Never met: {numbers} printed numbers and {len(lost)} claims{named}.")
    return tuple(parts)


def _describe_nearest(matches: pd.DataFrame, everything: pd.DataFrame) -> str:
    """Describe the nearest specification of one reading of N: its settings, and what it misses."""
    facts, own, nearest = load_facts(), everything.iloc[0], find_nearest(matches)
    claims = [fact for fact in facts if fact["kind"] == "claim"]
    missed = _merge_tests([fact["text"] for fact in claims if nearest[fact["id"]] != 1])
    changed = [name for name in CHOICES if name != "rows" and nearest[name] != own[name]]
    settings = ", ".join(f"{name.replace('_', ' ')} {nearest[name]}" for name in changed)
    return (
        f"If {N_READ_AS[nearest['rows']]} ({matches['key'].nunique()} posteriors), the nearest "
        f"specification meets {nearest['claims_met']:g} of {len(claims)} claims and "
        f"{nearest['numbers_met']:g} of {len(facts) - len(claims)} printed numbers; it is the "
        f"study's own but for: {settings or 'nothing'}. "
        f"Claims that it misses: {'; '.join(missed) or 'none'}."
    )


def _merge_tests(texts: list[str]) -> list[str]:
    """Merge sentences that differ only in their end, "over networks" or "over items"."""
    merged: dict[str, list[str]] = {}
    for text in texts:
        what, _, over = text.partition(" over ")
        merged.setdefault(what, []).extend([over] if over else [])
    return [f"{what} over {' and '.join(by)}" if by else what for what, by in merged.items()]
