"""Items from end to end: train or load networks, measure every word, judge findings, draw.

`measure` is the function behind `equivocal measure`. Measures, verdicts and readings are defined in
the other modules of this folder.

    OUT/networks/WORLD/            trained networks, reused
    OUT/networks/WORLD_literal/    trained without the world's noise, where it has any
    OUT/posteriors/WORLD/          posteriors over their last layers, reused
    OUT/tables/, OUT/figures/, OUT/measure.toml

Without OUT, networks and posteriors are kept in the user's cache folder.

If a run depends on something new, add it to the settings in `measure`, so that it is recorded.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from equivocal.machine import find_cache_folder
from equivocal.measuring import readings
from equivocal.measuring.exact import build_warrant
from equivocal.measuring.findings import (
    summarise_findings,
    tabulate_findings,
)
from equivocal.measuring.measures import average_networks, describe_columns
from equivocal.measuring.paradigms import PARADIGMS, Paradigm, find_warnings, load_paradigm
from equivocal.measuring.readings import ROWS, SAMPLER, VARIANCE, sample_particles
from equivocal.measuring.words import measure_words
from equivocal.network import Run, TrainingSettings
from equivocal.network.runs import choose_training, split_corpus, train_or_load
from equivocal.progress import progress
from equivocal.report import Picture, Section
from equivocal.result import Figures, Result, describe_run, write_tables
from equivocal.store.files import is_plain_name
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import NETWORK_CODE, Store, hash_content
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.files import explain_write_errors
from lastlayer.seeds import Seed

__all__ = ["BELIEFS", "MeasureResult", "measure"]

BELIEFS = ("posterior", "trained")
# settings that make a run a different one; versions and run time do not
COMPARED = ("items", "beliefs", "worlds", "networks", "seed", "training", "posterior")


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasureResult(Result):
    """Measures of items, and what became of the findings.

    `tables` holds "words" (a row for each network and word, a column for each measure), "wide" (a
    row for each word, averaged over networks, with intervals), "columns" (what they hold) and,
    where there are any, "findings" (with verdicts), "readings" and "shares" (of sentences with two
    readings).
    """

    paradigms: tuple[Paradigm, ...] = ()
    title: ClassVar[str] = "Measures at every word"
    question: ClassVar[str] = "What do the networks' measures say at every word of these sentences?"

    def describe_figures(self) -> dict[str, str]:
        """Return what each figure shows, by name."""
        overview = {
            "overview": "The findings at a glance. Ratios of what is predicted to be larger "
            "to what is predicted to be smaller, and verdicts."
        }
        return overview | {one.name: f"{one.title}." for one in self.paradigms}

    def list_sections(self, pictures: list[Picture]) -> list[Section]:
        """List the sections of the report, with the findings of each paradigm."""
        names = ["finding", "measure", "effect", "network_low", "network_high", "verdict"]
        by_name = {picture.name: picture for picture in pictures}
        sections = []
        for paradigm in self.paradigms:
            findings = self.tables.get("findings", pd.DataFrame({"paradigm": []}))
            own = findings[findings["paradigm"] == paradigm.name].reindex(columns=names)
            own = own.rename(columns={"network_low": "effect_low", "network_high": "effect_high"})
            shown = [by_name[paradigm.name]] if paradigm.name in by_name else []
            sections.append(Section(title=paradigm.title, pictures=shown, table=own))
        return sections

    def draw(self) -> Figures:
        """Draw an overview of the findings, and for each paradigm its readings or its measures."""
        from equivocal.measuring import figures

        drawn: Figures = {}
        if "findings" in self.tables:
            titles = {paradigm.name: paradigm.title for paradigm in self.paradigms}
            drawn["overview"] = figures.draw_overview(self.tables["findings"], titles)
        for paradigm in self.paradigms:
            own = {
                name: table[table["paradigm"] == paradigm.name]
                for name, table in self.tables.items()
                if "paradigm" in table
            }
            drawn[paradigm.name] = (
                figures.draw_readings(own["shares"], paradigm)
                if paradigm.readings
                else figures.draw_words(own["words"], paradigm)
            )
        return drawn


def measure(
    items: str | Path | Sequence[str | Path] = PARADIGMS,
    *,
    world: str | Path | World | None = None,
    run: str | Path | None = None,
    out: str | Path | None = None,
    networks: int | None = None,
    seed: Seed | None = None,
    recipe: str | None = None,
    beliefs: str = "posterior",
    wide: bool = False,
    quick: bool = False,
) -> MeasureResult:
    """Measure every word of items with trained networks, and judge what is expected of them.

    Parameters
    ----------
    items : str, Path or sequence of them
        Paths of tables of items (.csv), perhaps with `expectations.toml` beside them, or names of
        paradigms; by default the nine paradigms of 2018.
    world : str, Path or World, optional
        The world of tables of items whose expectations name none.
    run : str or Path, optional
        A folder that `equivocal train` has written, whose networks and world are used.
    out : str or Path, optional
        Folder for networks, tables and figures. Networks and posteriors in it are reused, so that
        an interrupted run resumes. The path of a CSV file also writes the table of words there, and
        everything else to the folder of the same name without its ending. Without it nothing is
        written, and networks are kept in the cache.
    networks, seed : int, optional
        The number of networks to train, by default ten, and their seed.
    recipe : {"fast", "paper", "sg2018"}, optional
        How they are trained; see `equivocal.network.settings`.
    beliefs : {"posterior", "trained"}
        Whether beliefs are those of particles of the converged posterior over the last layer, or of
        the trained last layer, which takes less time and has no epistemic uncertainty.
    wide : bool
        Whether the CSV file of `out` holds the wide table.
    quick : bool
        Two small networks, only to check that it works; do not report the results.

    Returns
    -------
    MeasureResult
        With `.tables`; already written to `out`, if there is one.

    Raises
    ------
    UserError
        For unknown names, mistakes in a file, or a folder that holds other networks.
    """
    began = perf_counter()
    if beliefs not in BELIEFS:
        raise UserError(f"beliefs must be {' or '.join(BELIEFS)}, got {beliefs!r:.80}.")
    trained = None if run is None else Run.load(run)
    training = choose_training(networks, seed, recipe=recipe, quick=quick)
    paradigms = _load_items(items, trained.world if trained else world)
    for line in find_warnings(paradigms):
        warnings.warn(line, stacklevel=2)
    settings = _describe_settings(paradigms, trained.settings if trained else training, beliefs)
    folder = _choose_folder(out, settings)
    with hold_folder(folder):
        if not (folder / "measure.toml").exists():
            refuse_foreign_files(folder / "networks", ["tables", "figures"])
        parts = [
            _measure_world(part, trained, training, folder, beliefs) for part in _group(paradigms)
        ]
        tables = _join_tables(parts, paradigms)
        result = MeasureResult(
            name="measure",
            tables=tables,
            settings=describe_run(began, quick=quick, **settings),
            summary=tuple(_summarise(tables, paradigms)),
            paradigms=tuple(paradigms),
        )
        if out is not None:
            _write(result, Path(out), folder, "wide" if wide else "words")
    return result


def _choose_folder(out: str | Path | None, settings: dict[str, Any]) -> Path:
    """Return the folder of all results, or one in the cache that fits the networks."""
    if out is not None:
        return Path(out).with_suffix("") if Path(out).suffix == ".csv" else Path(out)
    key = hash_content(settings["training"], settings["worlds"], code=NETWORK_CODE)
    return find_cache_folder() / f"measure-{key}"


def _write(result: MeasureResult, target: Path, folder: Path, name: str) -> None:
    """Write everything to the folder, and the table of words to the target with its dictionary."""
    announce_overwrite(folder / "measure.toml", result.settings, COMPARED)
    with explain_write_errors(folder / "measure.toml"):  # results are never mixed
        (folder / "measure.toml").unlink(missing_ok=True)
    result.write(folder)
    if target != folder:
        tables = {target.stem: result.tables[name]}
        columns = pd.DataFrame(describe_columns(map(str, result.tables[name])))
        write_tables(target.parent, tables | {f"{target.stem}_columns": columns})


def _load_items(
    items: str | Path | Sequence[str | Path], world: str | Path | World | None
) -> list[Paradigm]:
    """Load paradigms and tables of items by their names or paths."""
    names = [items] if isinstance(items, str | Path) else list(items)
    if isinstance(world, str | Path):
        world = World.load(world)
    paradigms = [load_paradigm(name, world) for name in dict.fromkeys(map(str, names))]
    if len({paradigm.name for paradigm in paradigms}) < len(paradigms):
        raise UserError("two files of items have the same name; rename one.")
    return paradigms


def _group(paradigms: Sequence[Paradigm]) -> list[list[Paradigm]]:
    """Group paradigms by their world."""
    groups: dict[str, list[Paradigm]] = {}
    for paradigm in paradigms:
        groups.setdefault(paradigm.world.fingerprint, []).append(paradigm)
    return list(groups.values())


def _measure_world(
    paradigms: Sequence[Paradigm],
    trained: Run | None,
    training: TrainingSettings,
    folder: Path,
    beliefs: str,
) -> dict[str, pd.DataFrame]:
    """Measure paradigms of one world; return the tables "words" and "readings"."""
    world = paradigms[0].world
    if not is_plain_name(world.name):
        raise UserError(f"the world's name {world.name!r:.80} cannot name a folder; rename it.")
    run = trained or train_or_load(world, training, folder / "networks" / world.name)
    literal = None
    if world.has_noise:
        place = folder / "networks" / f"{world.name}_literal"
        literal = train_or_load(world.remove_noise(), run.settings, place).networks
    layers = {"trained": [n.last_layer().values.astype(float)[:, None] for n in run.networks]}
    if beliefs == "posterior":
        store, layers["posterior"] = Store(folder), list[np.ndarray]()
        with progress(f"measuring in world {world.name}") as advance:
            for index in range(len(run.networks)):
                advance(index, len(run.networks), f"posterior of network {index}")
                layers["posterior"].append(sample_particles(run, index, store))
            advance(len(run.networks), len(run.networks), "all posteriors are ready")
    warrant = build_warrant(split_corpus(world, run.settings)[0]) if world.is_exact else None
    words = measure_words(run.networks, paradigms, layers[beliefs], literal, warrant)
    read = [
        readings.read_items(paradigm, network, each[index]).assign(network=index, beliefs=kind)
        for paradigm in paradigms
        if any(item.rivals for item in paradigm.rows.values())
        for kind, each in layers.items()
        for index, network in enumerate(run.networks)
    ]
    return {"words": words, "readings": pd.concat(read) if read else pd.DataFrame()}


def _join_tables(
    parts: Sequence[dict[str, pd.DataFrame]], paradigms: Sequence[Paradigm]
) -> dict[str, pd.DataFrame]:
    """Join the tables of all worlds, and add what is derived from them; leave out empty ones."""
    words, read = (
        pd.concat([part[name] for part in parts], ignore_index=True)
        for name in ("words", "readings")
    )
    wide = average_networks(words)
    tables = {
        "words": words,
        "wide": wide,
        "columns": pd.DataFrame(describe_columns(dict.fromkeys([*words, *wide]))),
        "findings": tabulate_findings(words, paradigms),
        "readings": read,
        "shares": readings.tabulate_shares(read) if len(read) else read,
    }
    return {name: table for name, table in tables.items() if len(table)}


def _describe_settings(
    paradigms: Sequence[Paradigm], training: TrainingSettings, beliefs: str
) -> dict[str, Any]:
    """Return what a run depends on."""
    posterior = {
        "prior_variance": VARIANCE,
        "rows": ROWS,
        "seed": training.seed,  # of the first network; each further one adds 1
        "sampler": SAMPLER.model_dump(exclude_none=True),
    }
    return {
        "items": [paradigm.name for paradigm in paradigms],
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {paradigm.world.name: paradigm.world.fingerprint for paradigm in paradigms},
        "training": asdict(training),
        **({"posterior": posterior} if beliefs == "posterior" else {}),
    }


def _summarise(tables: dict[str, pd.DataFrame], paradigms: Sequence[Paradigm]) -> list[str]:
    """Say what was measured, which findings held and how sentences were read."""
    words = tables["words"]
    sentences = words.groupby(["paradigm", "condition", "item"]).ngroups
    networks = words["network"].nunique()
    lines = [f"measured every word of {sentences} sentences with {networks} networks"]
    if "findings" in tables:
        lines += summarise_findings(tables["findings"])
    for paradigm in paradigms:
        if "shares" in tables and paradigm.name in set(tables["shares"]["paradigm"]):
            lines += readings.summarise_shares(tables["shares"], paradigm)
    return lines
