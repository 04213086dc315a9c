"""What can be wrong with the [noise] of a world file, and noise that leaves nothing to be known."""

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.errors import did_you_mean, join_names
from equivocal.world.errors import Problem, WorldError
from equivocal.world.grammar import NO_FILLER
from equivocal.world.names import Names
from equivocal.world.schema import NoiseSpec, WorldFile

if TYPE_CHECKING:
    from equivocal.world.corpus import Corpus

__all__ = ["count_changes", "find_noise_problems", "refuse_indistinct"]

TOLERANCE = 1e-9  # of probabilities that are compared by a weighted sum


def count_changes(file: WorldFile, names: Names) -> int:
    """Bound the number of ways in which noise changes constructions."""
    total = 0
    for spec in file.noise.values():
        struck = (*(spec.exchange or ()), *(spec.delete or ()))
        places = prod(1 if name in file.roles else len(file.roles) for name in struck)
        if spec.insert is not None:
            words = names.find_inserted(spec.insert)
            places *= len(spec.before + spec.after) * sum(len(names.expand(w)) for w in words)
        total += places * len(file.constructions)
    return total


def find_noise_problems(file: WorldFile, names: Names) -> Iterator[Problem]:
    """Find names that do not exist, and noise that cannot occur where it is meant to."""
    for name, spec in file.noise.items():
        place = f"[noise.{name}]"
        yield from (Problem(place, message) for message in _check_names(spec, file, names))
        yield from (Problem(place, message) for message in _check_kind(spec, file))


def _check_names(spec: NoiseSpec, file: WorldFile, names: Names) -> Iterator[str]:
    """Check that whatever is named exists."""
    roles = f"roles are {join_names(file.roles)}."
    constructions = [construction.name for construction in file.constructions]
    added = spec.insert_markers or {}
    named = (*(spec.roles or ()), *spec.before, *spec.after, *added)
    either = [*file.roles, *file.markers]
    lists: list[tuple[str, Iterable[str], Iterable[str], str]] = [
        ("construction", spec.constructions or (), constructions, f"{join_names(constructions)}."),
        ("role", named, file.roles, roles),
        ("role or marker", (*(spec.exchange or ()), *(spec.delete or ())), either, roles),
        ("marker", added.values(), file.markers, "add it to [markers]."),
        ("word", spec.words or (), names.known, "add it to a [words] table."),
    ]
    for what, wanted, known, advice in lists:
        for name in dict.fromkeys(wanted):
            if name not in known:
                yield f"unknown {what} {name!r:.60}{did_you_mean(name, known) or f'; {advice}'}"


def _check_kind(spec: NoiseSpec, file: WorldFile) -> Iterator[str]:
    """Check what a noise exchanges, deletes or inserts."""
    exchange, delete = spec.exchange or (), spec.delete or ()
    kinds = {name in file.roles for name in exchange}
    if spec.exchange is not None and (len(set(exchange)) != 2 or len(exchange) != 2):
        yield f"`exchange` names two different roles or markers, got {join_names(exchange)}."
    elif len(kinds) == 2 and set(exchange) <= {*file.roles, *file.markers}:
        yield f"`exchange` has a role and a marker, {join_names(exchange)}; name two of a kind."
    if spec.delete is not None and (not delete or len(set(delete)) < len(delete)):
        yield f"`delete` names what is lost, each once, got {join_names(delete)}."
    if spec.insert_markers is not None and not spec.insert_markers:
        yield "`insert_markers` is empty; name a role and its function word."
    if "action" in (*exchange, *delete):
        yield "the action stays in its place; exchange or delete another role."
    if spec.roles is not None and not {*exchange, *delete} & set(file.markers):
        yield "`roles` says where function words are struck; leave it out, or use `words`."
    for name in {*exchange, *delete} & set(file.roles) & set(file.markers):
        yield f"{name!r} is a role and a marker; rename one of them."
    lost = set(delete) & set(file.roles)
    for construction in file.constructions:
        strikes = spec.constructions is None or construction.name in spec.constructions
        stays = "action" in construction.order and construction.mentioned.get("action", 1) == 1
        if strikes and lost & set(construction.order) and not stays:
            what = f"it may leave nothing of a sentence of construction {construction.name!r}"
            yield f"{what}; say the action there, always, or limit it by `constructions`."


def refuse_indistinct(heard: "Corpus", meant: "Corpus") -> None:
    """Refuse noise that makes two meanings indistinguishable; see `describe_indistinct`."""
    alike = describe_indistinct(heard, meant)
    if alike:
        world = heard.world
        chances = ", ".join(f"{n} {spec.probability:g}" for n, spec in world.file.noise.items())
        message = (
            f"{chances} leaves no listener a way to tell {alike} apart: every sentence is as "
            "probable of the one as of the other; lower a probability, or limit where it strikes."
        )
        raise WorldError(world.source, [Problem("[noise]", message)])


def describe_indistinct(heard: "Corpus", meant: "Corpus") -> str | None:
    """Describe two meanings that noise has made indistinguishable; None where there are none.

    Two events are indistinguishable where each sentence is as probable of the one as of the other,
    though without noise they are told differently.

    Parameters
    ----------
    heard, meant : Corpus
        Everything that is said in a world, with noise and without.
    """
    events, group = _number_events(heard, meant)
    cut = len(heard)
    with_noise = _summarise_sentences(heard, group[:cut], len(events))
    without = _summarise_sentences(meant, group[cut:], len(events))
    order = np.lexsort(with_noise.T)
    alike = (np.abs(np.diff(with_noise[order], axis=0)) < TOLERANCE).all(axis=1)
    told_apart = (np.abs(np.diff(without[order], axis=0)) > TOLERANCE).any(axis=1)
    pairs = np.flatnonzero(alike & told_apart)
    if not len(pairs):
        return None
    lexicon, roles = heard.world.lexicon, heard.world.roles
    both = events[order[pairs[0]]], events[order[pairs[0] + 1]]
    names = [
        " ".join(f"{r}={lexicon.words[w]}" for r, w in zip(roles, e, strict=True) if w != NO_FILLER)
        for e in both
    ]
    return f"{names[0]!r} and {names[1]!r}"


def _number_events(heard: "Corpus", meant: "Corpus") -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Return distinct events, and the number of the event of each row of both."""
    fillers = np.concatenate([heard.derivations.fillers, meant.derivations.fillers])
    events, group = np.unique(fillers, axis=0, return_inverse=True)
    return events, group.ravel()


def _summarise_sentences(
    corpus: "Corpus", event: NDArray[np.intp], size: int
) -> NDArray[np.float64]:
    """Return (events, 3): P(sentence | event), as sums weighted at random.

    Two different distributions have the same sums with probability zero.
    """
    last = corpus.tree.node_of.max(axis=1)  # nodes are numbered by depth
    values = np.random.default_rng(0).random((int(last.max()) + 1, 3))[last]
    total = np.bincount(event, corpus.weight, size)
    sums = [np.bincount(event, corpus.weight * column, size) for column in values.T]
    return np.stack(sums, axis=1) / np.maximum(total, np.finfo(float).tiny)[:, None]
