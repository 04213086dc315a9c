"""Suites from end to end: train or load networks, run paradigms and constructions, judge, draw.

`measure` is the function behind `equivocal suites run` and `equivocal constructions run`.
Measures, verdicts and readings are defined in `equivocal.measuring`.

`suites.toml` is the last file that a run of paradigms writes: a folder without it holds no finished
run. `constructions.toml` has a table for each construction, so that they can be run one by one. If
a run depends on something new, add it to `describe_suites` or `describe_construction`, so that it
is recorded and compared with other runs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import tomli_w

from equivocal.measuring import construction_tables, findings, measurement, reading
from equivocal.measuring.measurement import SURPRISE, VARIANCE, measure_words
from equivocal.measuring.reading import Reader
from equivocal.measuring.suite import (
    CONSTRUCTIONS,
    PARADIGMS,
    Construction,
    Suite,
    load_construction,
    load_suite,
)
from equivocal.measuring.word_measures import MEASURES, check_measures
from equivocal.network import Run, TrainingSettings
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.progress import Advance, announce, progress
from equivocal.result import Figures, Result, describe_run, write_tables
from equivocal.statistics.summaries import append_means
from equivocal.store import read_toml
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import Store
from lastlayer.errors import UserError, check_known
from lastlayer.files import (
    UnreadableError,
    explain_write_errors,
    is_plain_name,
    write_text_atomically,
)
from lastlayer.seeds import Seed

if TYPE_CHECKING:
    from equivocal.world import World

__all__ = ["BELIEFS", "SuitesResult", "measure"]

BELIEFS = ("posterior", "trained")
VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)
# settings that make a run a different one; versions and run time do not
COMPARED = ("suites", "measures", "beliefs", "worlds", "networks", "seed", "training", "posterior")
HEARD = (100, 300, 1_000, 3_000, 10_000)  # sentences; used up to the networks' training corpus


@dataclass(frozen=True, kw_only=True, eq=False)
class SuitesResult(Result):
    """Results of networks on paradigms and constructions.

    Attributes
    ----------
    suites : tuple of Suite
        The paradigms; `tables` has words, words_summary, networks, conditions and findings.
    constructions : tuple of Construction
        For each, `tables` has NAME_readings, NAME_shares, NAME_beliefs and perhaps NAME_curves.
    settings : dict
        Keyed by the name of the TOML file that records them: "suites", "constructions".
    """

    suites: tuple[Suite, ...] = ()
    constructions: tuple[Construction, ...] = ()

    def draw(self) -> Figures:
        """Draw an overview and each paradigm, and readings and curves of each construction."""
        from equivocal.measuring import figures as report

        figures: Figures = {}
        if self.suites:
            titles = {suite.name: suite.title for suite in self.suites}
            figures["overview"] = report.draw_overview(self.tables["findings"], titles)
            keys = ("suite", "measure", "published", "condition")
            means = dict(iter(append_means(self.tables["networks"], *keys).groupby("suite")))
        for suite in self.suites:
            conditions = list(suite.conditions)
            figures[suite.name] = report.draw_suite(means[suite.name], conditions, suite.title)
        for construction in self.constructions:
            name, tables = construction.name, self.tables
            usual = construction_tables.select_usual(tables[f"{name}_readings"])
            items = construction_tables.tabulate_items(usual)
            figures[name] = report.draw_readings(tables[f"{name}_shares"], items, construction)
            if (curves := f"{name}_curves") in tables:
                figures[curves] = report.draw_curves(tables[curves], construction)
        return figures

    def write(self, folder: str | Path) -> None:
        """Write tables, figures and, last, the settings.

        Paradigms replace all earlier results of paradigms, constructions only their own. Figures
        of a user's own suites stay.
        """
        folder, settings = Path(folder), dict(self.settings)
        if self.suites:
            announce_overwrite(folder / "suites.toml", settings["suites"], COMPARED)
            _remove_earlier(folder)
        write_tables(folder / "tables", self.tables)
        self.save_figures(folder)
        if self.constructions:
            earlier = _load_constructions_settings(folder / "constructions.toml")
            settings["constructions"] = earlier | settings["constructions"]
        for name, content in settings.items():
            write_text_atomically(folder / f"{name}.toml", tomli_w.dumps(content))


def measure(
    names: Sequence[str | Path] | None = None,
    out: str | Path = "runs/suites",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    recipe: str | None = None,
    measures: Sequence[str] = (),
    beliefs: str = "posterior",
    by_role: bool = False,
    curve_networks: int | None = None,
) -> SuitesResult:
    """Run suites with trained networks, and judge the findings.

    Parameters
    ----------
    names : sequence of str or Path, optional
        Paradigms, constructions, or paths of suite files that end in .toml; by default the nine
        paradigms of `equivocal.measuring.PARADIGMS`.
    out : str or Path
        Folder for networks, tables and figures. Networks, posteriors and readings in it are reused,
        so that an interrupted run resumes.
    quick : bool
        Two small networks, only to check that it works; do not report the results.
    networks, seed : int, optional
        The number of networks to train, and their seed.
    recipe : {"fast", "paper", "sg2018"}, optional
        How they are trained; see `equivocal.network.settings`. Networks in OUT/networks/WORLD that
        were trained with these settings are reused.
    measures : sequence of str
        For paradigms: names in `equivocal.measuring.word_measures.MEASURES`, or "all"; by default
        the measure that each suite names.
    beliefs : {"posterior", "trained"}
        For paradigms: whether beliefs are those of particles of the converged posterior over the
        last layer, or of the trained last layer.
    by_role : bool
        For paradigms: whether the Bayesian surprise is also measured about each role.
    curve_networks : int, optional
        For constructions: the number of networks that curves are computed from, by default all; a
        curve takes several posteriors of each.

    Returns
    -------
    SuitesResult
        With `.tables`; already written to `out`.

    Raises
    ------
    UserError
        For unknown names, mistakes in a suite file, or a folder that holds other networks.
    """
    suites, constructions = _load_suites(names or PARADIGMS)
    measures = _check_measures(suites, measures, beliefs, by_role=by_role)
    training = choose_training(networks, seed, recipe=recipe, quick=quick)
    if curve_networks is not None and curve_networks > training.networks:
        raise UserError(
            f"curve_networks (--curve-networks) = {curve_networks} is more than the "
            f"{training.networks} networks that are trained; lower it, or raise networks."
        )
    trained = _Networks(Path(out), training)
    with hold_folder(trained.folder):
        refuse_foreign_files(trained.folder / "networks", ["tables", "figures", "suites.toml"])
        parts, settings = [], dict[str, Any]()
        if suites:
            parts.append(_run_paradigms(suites, trained, measures, beliefs, by_role=by_role))
            settings["suites"] = parts[0].settings
        for construction in constructions:
            followed = curve_networks or training.networks
            parts.append(_run_construction(construction, trained, followed))
            settings.setdefault("constructions", {})[construction.name] = parts[-1].settings
        result = SuitesResult(
            name="suites",
            tables={name: table for part in parts for name, table in part.tables.items()},
            settings=settings,
            summary=tuple(line for part in parts for line in part.summary),
            suites=tuple(suites),
            constructions=tuple(constructions),
        )
        result.write(trained.folder)
    return result


def _load_suites(names: Sequence[str | Path]) -> tuple[list[Suite], list[Construction]]:
    """Load suites of both kinds by their names or paths."""
    suites, constructions = [], []
    for name in dict.fromkeys(map(str, names)):
        if name in CONSTRUCTIONS:
            constructions.append(load_construction(name))
        elif name in PARADIGMS or name.endswith(".toml"):
            suites.append(load_suite(name))
        else:
            known = (*PARADIGMS, *CONSTRUCTIONS)
            check_known(name, known, "suite", advice=", and a file of your own ends in .toml")
    for suite in suites:
        if all(finding.signal != "N400" for finding in suite.findings):
            raise UserError(
                f"suite {suite.name!r} has no finding about the N400, the only signal that is "
                "measured here; use `equivocal suites signals`."
            )
    taken = [suite.name for suite in suites] + [one.name for one in constructions]
    if len(set(taken)) < len(taken):
        raise UserError("two suites have the same name; rename the file of one.")
    return suites, constructions


def _check_measures(
    suites: Sequence[Suite], measures: Sequence[str], beliefs: str, *, by_role: bool
) -> list[str]:
    """Return the requested measures, each once; an empty list stands for the suites' own."""
    if beliefs not in BELIEFS:
        raise UserError(f"beliefs must be {' or '.join(BELIEFS)}, got {beliefs!r:.80}.")
    asked = list(MEASURES) if "all" in measures else list(dict.fromkeys(measures))
    check_measures(asked)
    if by_role and SURPRISE not in (asked or [suite.measure for suite in suites]):
        raise UserError(
            f"by_role (--by-role) needs the measure {SURPRISE}; add --measure {SURPRISE}."
        )
    return asked


class _Networks:
    """The networks of a run's folder, trained or loaded once for each world."""

    def __init__(self, folder: Path, training: TrainingSettings) -> None:
        self.folder, self.training, self.store = folder, training, Store(folder)
        self._runs: dict[str, Run] = {}

    def train_or_load(self, world: "World") -> Run:
        if not is_plain_name(world.name):
            raise UserError(f"the world's name {world.name!r:.80} cannot name a folder; rename it.")
        if world.fingerprint not in self._runs:
            place = self.folder / "networks" / world.name
            self._runs[world.fingerprint] = train_or_load(world, self.training, place)
        return self._runs[world.fingerprint]


def _run_paradigms(
    suites: Sequence[Suite],
    trained: _Networks,
    measures: Sequence[str],
    beliefs: str,
    *,
    by_role: bool,
) -> Result:
    """Measure and judge paradigms; those with the same world and measures in one pass."""
    began = perf_counter()
    worlds = list(dict.fromkeys(suite.world.fingerprint for suite in suites))
    groups: dict[tuple[int, tuple[str, ...]], list[Suite]] = {}
    for suite in sorted(suites, key=lambda suite: worlds.index(suite.world.fingerprint)):
        key = worlds.index(suite.world.fingerprint), tuple(measures or [suite.measure])
        groups.setdefault(key, []).append(suite)
    parts = []
    for (_, asked), own in groups.items():
        run = trained.train_or_load(own[0].world)
        sampled = [measure for measure in asked if _needs_particles(measure, beliefs)]
        with progress(f"measuring in world {run.world.name}") as advance:
            if plain := [measure for measure in asked if measure not in sampled]:
                parts.append(measure_words(run.networks, own, plain, by_role=by_role))
            if sampled:
                find = _sample_posteriors(run, trained.store, advance).__getitem__
                parts.append(measure_words(run.networks, own, sampled, find, by_role=by_role))
    tables = findings.tabulate_all(pd.concat(parts, ignore_index=True), suites)
    settings = describe_suites(suites, measures, beliefs, trained.training, by_role=by_role)
    summary = tuple(findings.summarise_findings(tables["findings"]))
    about = describe_run(began, **settings)
    return Result(name="suites", tables=tables, settings=about, summary=summary)


def _sample_posteriors(run: Run, store: Store, advance: Advance) -> list[np.ndarray]:
    """Load or sample the particles of every network."""
    particles = []
    for index in range(len(run.networks)):
        advance(index, len(run.networks), f"posterior of network {index}")
        particles.append(measurement.sample_particles(run, index, store))
    advance(len(run.networks), len(run.networks), "all posteriors are ready")
    return particles


def _run_construction(construction: Construction, trained: _Networks, followed: int) -> Result:
    """Read a construction with every network and with particles of its posteriors.

    Curves are computed from the first `followed` networks.
    """
    began, run = perf_counter(), trained.train_or_load(construction.world)
    readers = [Reader(construction, run, n, trained.store) for n in range(len(run.networks))]
    usual, *curves = list_posteriors(construction, run.settings.sentences)
    parts = [reader.read_trained() for reader in readers]
    tasks = [(reader, usual) for reader in readers]
    tasks += [(reader, posterior) for reader in readers[:followed] for posterior in curves]
    with progress(f"{construction.name}: posteriors") as advance:
        for number, (reader, posterior) in enumerate(tasks, start=1):
            parts.append(reader.read_posterior(*posterior))
            advance(number, len(tasks), f"network {reader.index}")
    readings = pd.concat(parts, ignore_index=True)
    tables = construction_tables.tabulate_all(readings, construction, followed)
    settings = describe_construction(construction, trained.training, followed)
    summary = tuple(construction_tables.summarise_construction(construction, tables))
    named = {f"{construction.name}_{what}": table for what, table in tables.items()}
    about = describe_run(began, **settings)
    return Result(name=construction.name, tables=named, settings=about, summary=summary)


def _needs_particles(measure: str, beliefs: str) -> bool:
    """Return whether a measure of these `beliefs` is computed from particles of the posterior."""
    reads = MEASURES[measure].reads
    return reads == "ensemble" or (reads == "beliefs" and beliefs == "posterior")


def describe_suites(
    suites: Sequence[Suite],
    measures: Sequence[str],
    beliefs: str,
    training: TrainingSettings,
    *,
    by_role: bool,
) -> dict[str, Any]:
    """Return what a run of paradigms depends on; empty `measures` stand for the suites' own."""
    asked = [(suite.world, measures or [suite.measure]) for suite in suites]
    measured = [
        name
        for world, own in asked
        for name in measurement.choose_measures(own, world.roles if by_role else ())
    ]
    posterior = {
        "particles": measurement.SAMPLER.num_particles,
        "prior_variance": VARIANCE,
        "rows": measurement.ROWS,
        "seed": training.seed,  # of the first network; each further one adds 1
        "sampler": measurement.SAMPLER.model_dump(exclude_none=True),
    }
    sampled = any(_needs_particles(name, beliefs) for _, own in asked for name in own)
    return {
        "suites": [suite.name for suite in suites],
        "measures": list(dict.fromkeys(measured)),
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {suite.world.name: suite.world.fingerprint for suite in suites},
        "training": asdict(training),
        **({"posterior": posterior} if sampled else {}),
    }


def list_posteriors(construction: Construction, sentences: int) -> list[tuple[float, int]]:
    """Return the prior variance and number of sentences of each posterior, the usual one first."""
    usual = [(VARIANCE, sentences)]
    if not construction.curves:
        return usual
    usual += [(variance, sentences) for variance in VARIANCES if variance != VARIANCE]
    return usual + [(VARIANCE, heard) for heard in HEARD if heard < sentences]


def describe_construction(
    construction: Construction, training: TrainingSettings, curve_networks: int
) -> dict[str, Any]:
    """Return what the tables and figures of one construction depend on."""
    posteriors = list_posteriors(construction, training.sentences)
    curves = {
        "conditions": list(construction.curves),
        "networks": curve_networks,  # how many, from the first on
        "prior_variances": sorted(v for v, heard in posteriors if heard == training.sentences),
        "sentences_heard": sorted(heard for v, heard in posteriors if v == VARIANCE),
    }
    return {
        "world": construction.world.name,
        "fingerprint": construction.world.fingerprint,
        "items": len(construction.items),
        "prior_variance": VARIANCE,  # of all tables and figures except the curves
        **({"curves": curves} if construction.curves else {}),
        "training": asdict(training),
        "sampler": reading.SAMPLER.model_dump(exclude_none=True),
    }


def _remove_earlier(folder: Path) -> None:
    """Remove an earlier run of paradigms, its record first, so that results are never mixed.

    Figures of a user's own suites stay: they cannot be distinguished from other pictures.
    """
    from equivocal.figure_style import KINDS

    earlier = [folder / "suites.toml"]
    earlier += [folder / "tables" / f"{name}.csv" for name in findings.TABLES]
    earlier += [folder / "figures" / f"{name}.{kind}" for name in PARADIGMS for kind in KINDS]
    for path in earlier:
        with explain_write_errors(path):
            path.unlink(missing_ok=True)


def _load_constructions_settings(path: Path) -> dict[str, Any]:
    """Load the recorded settings of constructions that were run before, by name."""
    try:
        found = read_toml(path) if path.exists() else {}
    except UnreadableError:
        announce(f"{path} cannot be read; its records of other constructions are lost")
        found = {}
    return {name: table for name, table in found.items() if name in CONSTRUCTIONS}
