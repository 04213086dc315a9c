"""Paradigms: tables of items, and what is expected of them.

Items are a CSV file in the format of `equivocal.world.items`: sentences in conditions, with a
critical word (the last, if none is named). What is expected of a table, if anything, is in a file
`expectations.toml` beside it, under the table's name:

    [reversal_anomaly]
    world = "sg2018"
    sources = ["Kim & Osterhout (2005), Journal of Memory and Language 52, 205–225"]

    [[reversal_anomaly.expected]]
    says = "an incongruent verb gives a larger N400 than the congruent one"
    larger = "incongruent"
    smaller = "congruent"

An expectation that compares more than two conditions gives a `contrast` instead: weights that sum
to zero, whose weighted sum of means is predicted to be positive. Its `measures` are columns of the
table of words, by default those that are linked with the N400; its `source` is by default the
first of the table's.

A construction is a table whose sentences have two readings, named under `readings`. Under one a
probe is answered by its unit in `tracked_units`, under the other by that in `rival_units`; see
`equivocal.measuring.readings`.

A paradigm of the package is a CSV file and a part of the expectations in `data/`, and a name in
`PARADIGMS`, `CONSTRUCTIONS` or `EXPLORATORY`. `published_2018.csv` holds the mean semantic update
of each published network in each condition (Rabovsky, Hansen & McClelland 2018, standard model);
`published` maps conditions to its names.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from equivocal.errors import validate
from equivocal.measuring.exact import compute_surprisal
from equivocal.measuring.measures import MEASURES, list_linked
from equivocal.store import read_table, read_toml
from equivocal.store.files import is_plain_name, resolve_inside
from equivocal.world import World, list_shipped_worlds
from equivocal.world.grammar import NO_FILLER
from equivocal.world.items import Item, find_shipped_items, load_items
from equivocal.world.loading import split_world_name
from lastlayer.errors import UserError, check_known, join_names

__all__ = ["CONSTRUCTIONS", "EXPLORATORY", "PARADIGMS", "Expectation", "Paradigm"]

DATA = Path(str(resources.files("equivocal.measuring") / "data"))
EXPECTATIONS = "expectations.toml"
PUBLISHED_MEASURE = "semantic_update"
PARADIGMS = (  # in the order of the 2018 article's argument: sentences, single words, pairs, roles
    "semantic_incongruity",
    "cloze_probability",
    "categorical_relatedness",
    "sentence_position",
    "lexical_frequency",
    "semantic_priming",
    "associative_priming",
    "repetition_priming",
    "reversal_anomaly",
)
CONSTRUCTIONS = ("passive", "word_order", "attachment")
EXPLORATORY = ("impossible_reversals", "unlikely_reversals")  # in a world with noise


class Expectation(BaseModel):
    """A contrast of conditions that should be positive in some measures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    larger: str = ""
    smaller: str = ""
    contrast: dict[str, float] = {}
    measures: tuple[str, ...] = list_linked("N400")
    source: str = ""

    @model_validator(mode="after")
    def _check_contrast(self) -> "Expectation":
        named = self.larger and self.smaller and self.larger != self.smaller
        if bool(self.larger or self.smaller) == bool(self.contrast) or not (named or self.contrast):
            raise ValueError("name two conditions, larger and smaller, or give a contrast")
        # NaN is refused too
        if not abs(sum(self.weights.values())) < 1e-9 or not any(self.weights.values()):
            raise ValueError("the weights of a contrast must sum to zero and not all be zero")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each condition; they sum to zero."""
        if self.contrast:
            return {name: weight for name, weight in self.contrast.items() if weight}
        return {self.larger: 1.0, self.smaller: -1.0}


class _Expectations(BaseModel):
    """What is expected of one table of items."""

    model_config = ConfigDict(extra="forbid")

    title: str = ""
    world: str = ""
    sources: tuple[str, ...] = ()
    published: dict[str, str] = {}
    expected: tuple[Expectation, ...] = ()
    readings: dict[Literal["answer", "rival"], str] = {}
    people: dict[str, float] = {}


@dataclass(frozen=True, eq=False)
class Paradigm:
    """Items in conditions, and what is expected of them."""

    name: str
    title: str
    world: World
    rows: dict[tuple[str, str], Item]  # by condition and item
    expected: tuple[Expectation, ...] = ()
    sources: tuple[str, ...] = ()
    published: dict[str, str] = field(default_factory=dict)  # the published name of a condition
    readings: dict[str, str] = field(default_factory=dict)  # how figures call answer and rival
    people: dict[str, float] = field(default_factory=dict)  # published shares of the rival reading

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions, in the order of the table."""
        return tuple(dict.fromkeys(name for name, _ in self.rows))

    @property
    def items(self) -> tuple[str, ...]:
        """The names of the items."""
        return tuple(dict.fromkeys(name for _, name in self.rows))

    def cite(self, expectation: Expectation | None = None) -> str:
        """Return authors and year of an expectation's source, which is by default the first."""
        source = (expectation and expectation.source) or next(iter(self.sources), "")
        authors, sign, _ = source.partition("),")
        return f"{authors})" if sign else source


def load_paradigm(name_or_path: str | Path, world: World | None = None) -> Paradigm:
    """Load a table of items, with what is expected of it.

    Parameters
    ----------
    name_or_path : str or Path
        The name of a table of the package, or the path of one of your own (.csv), perhaps with
        `expectations.toml` beside it.
    world : World, optional
        The world whose words the sentences use, where the expectations name none.

    Raises
    ------
    UserError
        For any mistake in either file; the message names the file, the place and what to change.
    """
    path, place = _find_files(str(name_or_path))
    about = _read_expectations(place, path.stem)
    if about.world:
        world = _load_world(place, about.world)
    if world is None:
        raise UserError(
            f"{path} does not say in which world its sentences are; give one (--world), or the "
            "folder of trained networks (--run)."
        )
    needs = ("tracked_units", "rival_units") if about.readings else ()
    items = load_items(path, world, needs=needs, balanced=False)
    for one in about.expected:
        for name in one.weights:
            check_known(name, items.conditions, "condition", f"{place}, {one.says!r:.80}: ")
        for name in one.measures:
            check_known(name, MEASURES, "measure", f"{place}, {one.says!r:.80}: ")
    named = dict(about) | {"title": about.title or path.stem, "world": world}
    return Paradigm(name=path.stem, rows=items.rows, **named)


def _find_files(name: str) -> tuple[Path, Path]:
    """Return the paths of a table of items, and of what is expected of it."""
    path = Path(name)
    if not path.suffix:
        shipped = (*PARADIGMS, *CONSTRUCTIONS, *EXPLORATORY)
        check_known(name, shipped, "paradigm", advice=", and a table of your own ends in .csv")
        path = find_shipped_items(name) if name in CONSTRUCTIONS else DATA / f"{name}.csv"
        return path, DATA / EXPECTATIONS
    if path.suffix == ".toml":
        raise UserError(
            f"{path}: give the table of items (.csv); what is expected of it is read from "
            f"{EXPECTATIONS} beside it."
        )
    if not is_plain_name(path.stem):
        raise UserError(f"{path}: figures are named after it; give it a shorter, plain name.")
    return path, path.with_name(EXPECTATIONS)


def _read_expectations(place: Path, name: str) -> _Expectations:
    """Read what is expected of a table; nothing, if there is no such file or part of it."""
    parts = read_toml(place) if place.exists() else {}
    if parts and name not in parts:
        warnings.warn(
            f"{place} has no part [{name}], so nothing is expected of {name}.csv; there are "
            f"{join_names(parts)}.",
            stacklevel=2,
        )
    return validate(_Expectations, parts.get(name, {}), "key", f"{place}, [{name}]: ")


def _load_world(place: Path, name: str) -> World:
    """Load the world of a paradigm: one of the package, or a file beside the expectations."""
    plain, values = split_world_name(name)
    if plain in list_shipped_worlds():
        return _load_shipped_world(name)
    where = f"{place}, world"
    resolve_inside(place.parent, name, where)  # a file may have the whole name, values included
    return World.load(f"{resolve_inside(place.parent, plain, where)}{values}")


_load_shipped_world = cache(World.load)  # the nine paradigms share a world


@cache
def load_published_means() -> pd.DataFrame:
    """Load the mean semantic update of the published networks.

    Returns
    -------
    DataFrame
        A row for each network and a column for each condition.
    """
    table = read_table(DATA / "published_2018.csv")
    return table.pivot(index="network", columns="condition", values=PUBLISHED_MEASURE)


def find_published(paradigm: Paradigm, measure: str) -> dict[str, np.ndarray]:
    """Return the means of the published networks by condition, for conditions that they have."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = load_published_means()
    return {
        name: known[published].to_numpy(float)
        for name, published in paradigm.published.items()
        if published in known
    }


# ---- warnings: what would embarrass the author of items later; a new one is a generator here


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
