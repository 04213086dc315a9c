"""Warnings about items that would embarrass their author later; nothing is refused.

A new warning is a generator here, called in `find_warnings`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from equivocal.measuring.exact import compute_surprisal
from equivocal.measuring.paradigms import Paradigm
from equivocal.world import World
from equivocal.world.grammar import NO_FILLER
from lastlayer.errors import join_names

__all__ = ["find_warnings"]


def find_warnings(paradigms: Sequence[Paradigm]) -> Iterator[str]:
    """Yield a sentence for each thing about a user's items that limits what they can show.

    Parameters
    ----------
    paradigms : sequence of Paradigm
        Those of which findings are expected are not looked at: what differs there is intended.
    """
    for paradigm in paradigms:
        if paradigm.expected or paradigm.readings:
            continue
        for line in (*_compare_critical_words(paradigm), *_find_unheard_words(paradigm)):
            yield f"{paradigm.name}: {line}"
        if paradigm.world.is_exact:
            for line in (*_find_decided_agents(paradigm), *_find_impossible(paradigm)):
                yield f"{paradigm.name}: {line}"


def _compare_critical_words(paradigm: Paradigm) -> Iterator[str]:
    words: dict[str, set[str]] = defaultdict(set)
    for (_, item), row in paradigm.rows.items():
        words[item].add(row.utterance.constituents[row.critical - 1].word)
    differing = [item for item, several in words.items() if len(several) > 1]
    if differing:
        example = join_names(sorted(words[differing[0]]))
        yield (
            f"in {len(differing)} of {len(words)} items the critical word differs between "
            f"conditions ({differing[0]}: {example}), so an effect may be one of the words; name "
            "another one under `critical`, or keep frequency in the model."
        )


def _find_unheard_words(paradigm: Paradigm) -> Iterator[str]:
    """Find words at a position at which networks never heard them."""
    world, tree = paradigm.world, paradigm.world.all_derivations.tree
    heard = {tuple(row) for row in np.column_stack([tree.depth, tree.tokens]).tolist()}
    new = {
        f"{part.text} ({place})": item
        for (_, item), row in paradigm.rows.items()
        for place, (part, tokens) in enumerate(
            zip(row.utterance, world.encode(row.utterance).tolist(), strict=True), start=1
        )
        if (place, *tokens) not in heard
    }
    if new:
        yield (
            f"words that are never heard at their position in world {world.name!r}: "
            f"{join_names(new)}; what networks make of them is a guess."
        )


def _find_decided_agents(paradigm: Paradigm) -> Iterator[str]:
    """Find verbs that always have the same agent, so that beliefs about it show nothing else."""
    world = paradigm.world
    role = next((r for r in ("agent", *world.roles) if r in world.roles and r != "action"), None)
    verbs = {part.word for row in paradigm.rows.values() for part in row.utterance}
    decided = _list_decided(world, role) if role else {}
    found = [f"{verb} ({agent})" for verb, agent in decided.items() if verb in verbs]
    if found:
        yield (
            f"verbs that decide the {role}: {join_names(found)}; whoever hears the verb "
            f"knows the {role}, whatever the other words say."
        )


def _list_decided(world: World, role: str) -> dict[str, str]:
    """Return the verbs that have one filler of a role only, and that filler."""
    words, rows = world.lexicon.words, world.all_derivations.derivations.fillers
    pairs = rows[:, [world.grammar.action_role, world.roles.index(role)]]
    agents: dict[int, set[int]] = defaultdict(set)
    for verb, agent in np.unique(pairs[pairs[:, 1] != NO_FILLER], axis=0).tolist():
        agents[verb].add(agent)
    return {words[v]: words[next(iter(one))] for v, one in agents.items() if len(one) == 1}


def _find_impossible(paradigm: Paradigm) -> Iterator[str]:
    """Find conditions in which sentences never happen, so that there is no truth about them."""
    lacking: dict[str, int] = dict.fromkeys(paradigm.conditions, 0)
    for (condition, _), row in paradigm.rows.items():
        surprisal = compute_surprisal(paradigm.world, row.utterance)
        lacking[condition] += not np.isfinite(surprisal).all()
    counts = [f"{count} in {condition}" for condition, count in lacking.items() if count]
    if counts:
        yield (
            f"sentences that never happen in world {paradigm.world.name!r}: {join_names(counts)}; "
            "from the impossible word on exact measures are empty and beliefs have no truth to be "
            "compared with."
        )
