"""Events and the ways to say them: all of them with their probability, or a random sample.

A derivation is one event (a filler for each role), expressed by one construction, with some roles
mentioned and others not. Both `enumerate_derivations` and `draw_derivations` apply the same rules,
to whole columns at a time.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from equivocal.world.errors import Problem, WorldError
from equivocal.world.grammar import NO_FILLER, Action, Choice, Disturbance, Grammar

Columns = NDArray[np.int32]
Struck = list[tuple[Disturbance, NDArray[np.intp]]]  # disturbances, and the rows they may affect
ROUND_OFF = 1e-12


@dataclass(frozen=True, eq=False)
class Derivations:
    """Rows of (event, construction, roles that are said); `weight` is a probability or a count."""

    fillers: Columns  # (rows, roles): word number or NO_FILLER
    construction: NDArray[np.int32]  # (rows,)
    said: NDArray[np.bool_]  # (rows, roles): put into words, if the event has the role
    weight: NDArray[np.float64]  # (rows,)

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: NDArray[np.intp]) -> "Derivations":
        """Return the chosen rows, in the order given."""
        return Derivations(*(column[rows] for column in vars(self).values()))

    def reweight(self, weight: NDArray[np.float64]) -> "Derivations":
        """Return the same rows with other weights; zero keeps a row's place without counting it."""
        return replace(self, weight=weight)


def bound_derivations(grammar: Grammar) -> float:
    """Bound the number of derivations by the product of the longest lists of fillers."""
    total = 0.0
    ways = Counter(disturbance.meant for disturbance in grammar.disturbances)
    for action in grammar.actions:
        events = 1.0
        for _, choices in action.choices:
            events *= max(len(choice.fillers) for choice in choices)
        shares = zip(action.shares, grammar.constructions, strict=True)
        for number, (share, construction) in enumerate(shares):
            optional = sum(construction.mentioned[role] < 1 for role in construction.order)
            # in floats, because integers of NumPy overflow to 0 at 2⁶⁴
            tellings = (1 + ways[number]) * 2.0 ** min(int(optional), 1000)
            total += events * tellings if share > 0 else 0
    return total


def enumerate_derivations(grammar: Grammar) -> Derivations:
    """Enumerate every derivation once, with its exact probability."""
    parts = []
    for action in grammar.actions:
        rows = _enumerate_events(action, grammar)
        for number, share in enumerate(action.shares):
            if share > 0:
                parts.append(_enumerate_wordings(rows, number, float(share), grammar))
    return collapse(_enumerate_noise(_concatenate(parts), grammar))


def _enumerate_noise(meant: Derivations, grammar: Grammar) -> Derivations:
    """Split each row by what is heard: the sentence undisturbed, or affected by one noise."""
    parts, (struck, left) = [], _find_struck(meant, grammar)
    for disturbance, rows in struck:
        part = meant.take(rows)
        heard = np.full(len(rows), disturbance.heard, dtype=np.int32)
        weight = part.weight * disturbance.probability
        parts.append(replace(part, construction=heard, weight=weight))
    undisturbed = np.flatnonzero(left > ROUND_OFF)  # noise may affect every sentence
    return _concatenate([meant.reweight(meant.weight * left).take(undisturbed), *parts])


def _find_struck(meant: Derivations, grammar: Grammar) -> tuple[Struck, NDArray[np.float64]]:
    """Find the rows that each disturbance may affect, and P(heard as it was meant) of every row."""
    struck, left = [], np.ones(len(meant))
    for disturbance in grammar.disturbances:
        strikes = meant.construction == disturbance.meant
        for role, words in disturbance.needs:
            strikes &= meant.said[:, role] & words[meant.fillers[:, role]]
        rows = np.flatnonzero(strikes)
        left[rows] -= disturbance.probability
        struck.append((disturbance, rows))
    if left.min(initial=1) < -ROUND_OFF:
        raise _explain_noise(meant, int(left.argmin()), struck, grammar)
    return struck, left


def _explain_noise(meant: Derivations, row: int, struck: Struck, grammar: Grammar) -> WorldError:
    """Explain that the probabilities of all noise that may affect a row sum to above one."""
    total = sum(each.probability for each, rows in struck if row in rows)
    construction = grammar.constructions[meant.construction[row]].name
    message = (
        f"what may affect a sentence of construction {construction!r} sums to {total:.6g}, and at "
        "most 1 is possible; lower a probability, or limit a noise by constructions."
    )
    return WorldError(grammar.source, [Problem("[noise]", message)])


def _draw_noise(meant: Derivations, uniform: NDArray[np.float64], grammar: Grammar) -> Derivations:
    """Draw the construction in which each row is heard, by one uniform number per row."""
    struck, edge = _find_struck(meant, grammar)  # below the edge, a row stays as it was meant
    heard = meant.construction.copy()
    for disturbance, rows in struck:
        heard[rows[uniform[rows] >= edge[rows]]] = disturbance.heard  # the last edge passed counts
        edge[rows] += disturbance.probability
    return replace(meant, construction=heard)


def _enumerate_events(action: Action, grammar: Grammar) -> tuple[Columns, NDArray[np.float64]]:
    """Enumerate the events of an action, with their probabilities."""
    num_roles = len(grammar.lexicon.roles)
    fillers = np.full((1, num_roles), NO_FILLER, dtype=np.int32)
    fillers[0, grammar.action_role] = action.word
    weight = np.array([action.probability])
    for role, choices in action.choices:
        parts = []
        for choice, rows in _split_by_rule(action, role, choices, fillers, grammar):
            size = len(choice.fillers)
            grown = np.repeat(fillers[rows], size, axis=0)
            grown[:, role] = np.tile(choice.fillers, len(rows))
            parts.append((grown, np.outer(weight[rows], choice.probabilities).ravel()))
        fillers = np.concatenate([part for part, _ in parts])
        weight = np.concatenate([part for _, part in parts])
    return fillers, weight


def _enumerate_wordings(
    events: tuple[Columns, NDArray[np.float64]], number: int, share: float, grammar: Grammar
) -> Derivations:
    """Enumerate the ways to tell events in one construction: optional roles said or unsaid."""
    fillers, weight = events
    construction = grammar.constructions[number]
    said = np.zeros(fillers.shape, dtype=bool)
    weight = weight * share
    for role in construction.order:
        chance = construction.mentioned[role]
        present = fillers[:, role] != NO_FILLER
        if chance in (0.0, 1.0):
            said[:, role] = present & (chance == 1.0)
            continue
        silent = said.copy()
        said[:, role] = present
        # only rows whose event has the role are split into said and unsaid
        both = np.flatnonzero(present)
        factor = np.where(present, chance, 1.0)
        weight = np.concatenate([weight * factor, weight[both] * (1 - chance)])
        said = np.concatenate([said, silent[both]])
        fillers = np.concatenate([fillers, fillers[both]])
    column = np.full(len(weight), number, dtype=np.int32)
    return Derivations(fillers, column, said, weight)


def draw_derivations(grammar: Grammar, size: int, rng: np.random.Generator) -> Derivations:
    """Draw `size` rows, each of weight one; a longer sample begins with the same rows."""
    num_roles = len(grammar.lexicon.roles)
    uniform = rng.random((size, 2 + 2 * num_roles))  # a row's numbers are drawn together
    kind_at, telling_at = uniform[:, 0], uniform[:, 1].copy()
    choice_at, mention_at = uniform[:, 2:].reshape(size, 2, num_roles).transpose(1, 0, 2)
    kind = _pick(np.array([action.probability for action in grammar.actions]), kind_at)
    fillers = np.full((size, num_roles), NO_FILLER, dtype=np.int32)
    construction = np.zeros(size, dtype=np.int32)
    for number, action in enumerate(grammar.actions):
        rows = np.flatnonzero(kind == number)
        part = fillers[rows]
        part[:, grammar.action_role] = action.word
        for role, choices in action.choices:
            for choice, which in _split_by_rule(action, role, choices, part, grammar):
                picked = _pick(choice.probabilities, choice_at[rows[which], role])
                part[which, role] = choice.fillers[picked]
        fillers[rows] = part
        construction[rows], telling_at[rows] = _pick_and_rescale(action.shares, telling_at[rows])
    mentioned = np.stack([c.mentioned for c in grammar.constructions])[construction]
    in_order = np.zeros((len(grammar.constructions), num_roles), dtype=bool)
    for number, spec in enumerate(grammar.constructions):
        in_order[number, list(spec.order)] = True
    said = in_order[construction] & (fillers != NO_FILLER) & (mentioned > mention_at)
    meant = Derivations(fillers, construction, said, np.ones(size))
    return _draw_noise(meant, telling_at, grammar)


def _pick(probabilities: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.intp]:
    """Invert the cumulative distribution; rounding can never pick past the last entry."""
    edges = np.cumsum(probabilities)
    return np.searchsorted(edges[:-1] / edges[-1], uniform, side="right")


def _pick_and_rescale(
    probabilities: NDArray[np.float64], uniform: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Pick as `_pick`; also return each number's position in its interval, uniform on [0, 1)."""
    picked = _pick(probabilities, uniform)
    edges = np.concatenate([[0.0], np.cumsum(probabilities)])
    low, high = (edges / edges[-1])[picked], (edges / edges[-1])[picked + 1]
    return picked, (uniform - low) / (high - low)


def _split_by_rule(
    action: Action, role: int, choices: tuple[Choice, ...], fillers: Columns, grammar: Grammar
) -> list[tuple[Choice, NDArray[np.intp]]]:
    """Split rows by the rule that applies to them, which is the first that fits."""
    open_rows = np.arange(len(fillers))
    parts = []
    for choice in choices:
        fits = np.ones(len(open_rows), dtype=bool)
        for other, allowed in choice.when:
            fits &= np.isin(fillers[open_rows, other], allowed)
        parts.append((choice, open_rows[fits]))
        open_rows = open_rows[~fits]
    if len(open_rows):
        event = grammar.lexicon.name_event(fillers[open_rows[0]]).items()
        named, name = ", ".join(f"{r} = {w!r}" for r, w in event), grammar.lexicon.roles[role]
        ways_out = "add a last rule without `when` (`{ then = 'absent' }` for none)"
        message = f"no rule for {name!r} fits {named}; {ways_out}."
        raise WorldError(grammar.source, [Problem(f"[actions.{action.name}] {name}", message)])
    return parts


def collapse(derivations: Derivations) -> Derivations:
    """Merge equal rows into one that carries their total weight, in a fixed order."""
    keys = np.column_stack(
        [derivations.construction, derivations.fillers, derivations.said.astype(np.int32)]
    )
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return derivations.take(first).reweight(sum_by_group(group, derivations.weight))


def sum_by_group(group: NDArray[np.intp], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (groups,): the total weight of the rows in each group, numbered from 0."""
    return np.bincount(group.ravel(), weights=weight).astype(np.float64)


def _concatenate(parts: list[Derivations]) -> Derivations:
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Derivations(*map(np.concatenate, columns))
