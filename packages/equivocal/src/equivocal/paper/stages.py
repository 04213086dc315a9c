"""A study in its folder: the files that each stage reads and writes.

    prepare  settings.toml, stimuli.csv the study's own copies, so that a folder can stand alone
    train    run.toml, networks/        (`equivocal.network`)
    infer    posteriors/                a posterior per sampler, prior variance and network; gone
                                        once they have answered, unless the settings keep them
    probe    activations.nc             answers to the stimuli; path.nc along τ;
                                        exact.nc, nuts.nc beside the exact posterior
    analyse  tables/, claims.csv
    report   figures/, report.html      (`equivocal.paper`)

The key of a result is a hash of everything that it depends on; the store (FOLDER/records) records
the keys of finished results.

If a stage reads something new, add it to the key of that stage (`_hash_…`), or outdated results
will be reused.
"""

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equivocal.beliefs import LayerRows, SettingsTable, collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.paper import activations
from equivocal.paper.claims import find_impossible_numbers, judge_claims
from equivocal.paper.comparisons import (
    compare_with_exact,
    compare_with_nuts,
    sample_exactly,
    trace_effect,
)
from equivocal.paper.settings import StudySettings
from equivocal.paper.tables import PRINTED_STUDIES, compute_tables
from equivocal.progress import Advance
from equivocal.store import read_table
from equivocal.store.folders import has_run, locate_network
from equivocal.store.store import (
    NETWORK_CODE,
    POSTERIOR_CODE,
    Store,
    hash_content,
    hash_files,
)
from equivocal.workers import Begin
from equivocal.world import World
from equivocal.world.items import Items, load_stimuli
from lastlayer import Posterior
from lastlayer.errors import UserError, join_names
from lastlayer.files import write_atomically, write_text_atomically

FRONTIER = "frontier/tables/frontier.csv"  # written by `map_frontier` in the folder of a study
ANALYSED = ("activations.nc", "exact.nc", "nuts.nc", "scores.csv", "settings.toml", FRONTIER)
NEEDED = ("claims.csv", "tables/means.csv", "tables/paired_models.csv")  # read by the report
PROBED = ("probe", "path", "exact", "nuts", "flat_table")  # records of the stage `probe`
# what posteriors and answers depend on
PROBE_CODE = (
    *POSTERIOR_CODE,
    *(
        f"equivocal/paper/{name}.py"
        for name in ("activations", "comparisons", "settings", "stages")
    ),
)


class _Job(NamedTuple):
    """One posterior to sample."""

    sampler: str
    variance: float
    network: int

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"posteriors/{self.sampler}_{self.variance:g}/{self.network:02d}"

    def locate(self, folder: Path) -> Path:
        """Return the path of the posterior's file in the folder of a study."""
        return folder / f"{self.name}.safetensors"


@dataclass(eq=False)
class Study:
    """Settings and a folder; each stage is a method, which skips work that is finished.

    Attributes
    ----------
    settings : StudySettings
        The settings of the study.
    folder : Path
        The folder of its files; the caller holds its lock (`hold_folder`).
    """

    settings: StudySettings
    folder: Path
    _kept: tuple[int, LayerRows] | None = field(default=None, init=False, repr=False)

    def __reduce__(self) -> tuple[Callable[..., "Study"], tuple[StudySettings, Path]]:
        """Send a worker only what it needs to open the study itself."""
        return _reopen, (self.settings, self.folder)

    @cached_property
    def store(self) -> Store:
        """The records of finished results in the folder."""
        return Store(self.folder)

    @cached_property
    def world(self) -> World:
        """The world that the settings name."""
        return World.load(self.settings.world_source)

    @cached_property
    def run(self) -> Run:
        """The trained networks."""
        if not has_run(self.folder):
            raise UserError(
                f"{self.folder} holds no trained networks; `equivocal reproduce --out "
                f"{self.folder}` trains them, and `equivocal train` trains others."
            )
        return Run.load(self.folder)

    @cached_property
    def stimuli(self) -> Items:
        """The sentences, checked against the world of the networks."""
        return load_stimuli(self.folder / "stimuli.csv", self.run.world)

    @property
    def shown_item(self) -> str:
        """The item that is drawn word by word."""
        return self.settings.stimuli.shown or self.stimuli.items[0]

    @cached_property
    def mean_scores(self) -> dict[str, float]:
        """The scores of the networks, averaged over them."""
        return {str(name): float(mean) for name, mean in self.run.scores.mean().items()}

    @cached_property
    def sampled_units(self) -> tuple[str, ...]:
        """The units whose posteriors are sampled, in their order."""
        return activations.list_sampled_units(self.run.world, self.stimuli, self.settings)

    @cached_property
    def _jobs(self) -> list[_Job]:
        inference, networks = self.settings.inference, range(len(self.run.networks))
        jobs = product(networks, inference.samplers, inference.prior_variances)
        return [_Job(sampler, variance, index) for index, sampler, variance in jobs]

    @cached_property
    def network_keys(self) -> list[str]:
        """Hashes of each network, the world and the corpus."""
        training = self.run.settings
        corpus = [training.seed, training.sentences, training.held_out]
        # by number, since in alphabetical order 100 comes before 11
        files = (locate_network(self.folder, index) for index in range(training.networks))
        return [
            hash_content(hash_files(file), self.run.world.fingerprint, corpus, code=NETWORK_CODE)
            for file in files
        ]

    def _hash_job(self, job: _Job) -> str:
        inference = self.settings.inference
        how = inference.samplers[job.sampler].model_dump()
        seed, network = inference.get_seed(job.network), self.network_keys[job.network]
        what = network, how, job.variance, inference.rows, seed, self.sampled_units
        return hash_content(*what, code=PROBE_CODE)

    def infer(self, on_step: Advance, begin: Begin = partial) -> None:
        """Sample every posterior that is missing.

        Parameters
        ----------
        on_step : callable
            Called with the number of posteriors done, their total, and a description of the next.
        begin : callable
            Where they are sampled (`equivocal.workers`); by default in this process.
        """
        jobs, missing = self._jobs, self._list_missing()
        waits = [begin(self._make_posterior, job) for job in missing]
        for job, wait in zip(missing, waits, strict=True):
            where = f"network {job.network}, {job.sampler}, prior variance {job.variance:g}"
            on_step(len(jobs) - len(missing), len(jobs), where)
            wait()
            missing = missing[1:]
        on_step(len(jobs), len(jobs), "all posteriors are done")

    def measure_missing(self, *, trained: bool = True) -> dict[str, float]:
        """Measure what is missing of the posteriors and of the results of `probe`.

        Parameters
        ----------
        trained : bool
            Whether the networks are there; without them everything is missing.

        Returns
        -------
        dict of str to float
            The share that is missing, by "posteriors" and the names of results.
        """
        if not trained:
            return {name: float(self._is_wanted(name)) for name in ("posteriors", *PROBED)}
        shares = {name: float(self._is_missing(name)) for name in PROBED}
        return {"posteriors": len(self._list_missing()) / len(self._jobs), **shares}

    def _list_missing(self) -> list[_Job]:
        """List the posteriors that are not finished, of those that are needed."""
        if not self._needs_posteriors:
            return []
        find = partial(self.store.find, warn=False)
        return [job for job in self._jobs if find(job.name, self._hash_job(job)) is None]

    def _make_posterior(self, job: _Job) -> None:
        def work() -> list[Path]:
            path = job.locate(self.folder)
            self._sample(job).save(path)
            return [path]

        self.store.make(job.name, self._hash_job(job), work)

    def _collect_rows(self, index: int) -> LayerRows:
        """Collect the rows of the sampled units of one network; those of the last one are kept."""
        if self._kept is None or self._kept[0] != index:
            run, units = self.run, self.run.world.units
            layer = collect_last_layer(run, run.networks[index], self.settings.inference.rows)
            numbers = [units.index(unit) for unit in self.sampled_units]
            self._kept = index, layer.select(numbers)
        return self._kept[1]

    def _sample(self, job: _Job) -> Posterior:
        inference, rows = self.settings.inference, self._collect_rows(job.network)
        sampler, seed = inference.samplers[job.sampler], inference.get_seed(job.network)
        return infer_posterior(rows, sampler, job.variance, seed)

    @property
    def _needs_posteriors(self) -> bool:
        """Whether posteriors are to be there: they are kept, or have not answered yet."""
        return self.settings.keep_posteriors or self._is_missing("probe")

    def drop_posteriors(self) -> None:
        """Remove the posteriors, unless the settings keep them."""
        if not self.settings.keep_posteriors:
            self.store.remove(*(job.name for job in self._jobs))

    def find_posteriors(self) -> dict[tuple[str, float], Callable[[int], Posterior]]:
        """Find the posteriors that are finished for every network.

        Returns
        -------
        dict
            By sampler and prior variance: a function that loads the posterior of a network, given
            by its number, or samples it again where it was not kept.
        """
        if not self._needs_posteriors:
            return {
                (job.sampler, job.variance): partial(self._load, *job[:2]) for job in self._jobs
            }
        damaged = {*self.store.find_damaged(*(job.name for job in self._jobs))}
        ready = {(job.sampler, job.variance): True for job in self._jobs}
        for job in self._jobs:
            path = job.locate(self.folder)
            ready[job.sampler, job.variance] &= path.exists() and path not in damaged
        return {how: partial(self._load, *how) for how, whole in ready.items() if whole}

    def _load(self, sampler: str, variance: float, number: int) -> Posterior:
        job = _Job(sampler, variance, number)
        path = job.locate(self.folder)
        return Posterior.load(path) if path.exists() else self._sample(job)

    def probe(self, on_step: Advance, begin: Begin = partial) -> None:
        """Compute activations for the stimuli, their path along τ and their exact counterparts.

        The path, and the counterparts by HMC and NUTS, are left out where the settings ask for no
        networks of them.

        Parameters
        ----------
        on_step : callable
            Called with the number of parts done, their total, and the name of the next.
        begin : callable
            Where they are computed (`equivocal.workers`); by default in this process.

        Raises
        ------
        UserError
            Where a posterior is missing or damaged.
        """
        if self._needs_posteriors:
            posteriors = [job.locate(self.folder) for job in self._jobs]
            self._check(posteriors, (job.name for job in self._jobs), "infer")
        # NUTS is one long chain; it comes after the path, so that its times hold no compilation
        chain = [name for name in ("path", "nuts") if self._is_missing(name)]
        wait = (begin if chain else partial)(self._make, *chain)
        for done, name in enumerate(("probe", "exact", "flat_table")):
            on_step(done, 4, name)
            self._make(name, begin=begin)
        on_step(3, 4, "nuts")
        wait()
        on_step(4, 4, "answered")

    def _make(self, *names: str, begin: Begin = partial) -> None:
        """Make results of the stage `probe`, unless they are finished or not asked for."""
        asked = self.run, self.stimuli, self.settings
        makers: dict[str, Callable[[], list[Path]]] = {
            "probe": lambda: self._write("activations.nc", self._ask_networks(begin)),
            "path": lambda: self._write("path.nc", trace_effect(*asked)),
            "exact": lambda: self._write("exact.nc", self._compare_exactly(begin)),
            "nuts": lambda: self._write("nuts.nc", compare_with_nuts(*asked)),
            "flat_table": self._write_table,
        }
        for name in names:
            if self._is_wanted(name):
                self.store.make(name, self._hash_part(name), makers[name])

    def _is_wanted(self, name: str) -> bool:
        part = getattr(self.settings, name, True)
        return bool(getattr(part, "networks", part))

    def _is_missing(self, name: str) -> bool:
        finished = self.store.find(name, self._hash_part(name), warn=False) is not None
        return self._is_wanted(name) and not finished

    def _hash_part(self, name: str) -> str:
        """Return the key of a result of the stage `probe`."""
        own, inference = getattr(self.settings, name, None), self.settings.inference.model_dump()
        how = own.model_dump() if isinstance(own, SettingsTable) else own
        return hash_content(self._hash_questions(), name, how, inference, code=PROBE_CODE)

    def _hash_questions(self) -> str:
        settings = self.settings
        asked = settings.stimuli.model_dump(exclude={"file"})
        named = [settings.name, settings.quick_run, settings.inference.central_prior]
        posteriors = [self._hash_job(job) for job in self._jobs]
        stimuli = hash_files(self.folder / "stimuli.csv")
        return hash_content(posteriors, asked, named, stimuli, code=PROBE_CODE)

    def _ask_networks(self, begin: Begin) -> xr.Dataset:
        """Compute the answers of all networks and posteriors to the stimuli."""
        waits = [begin(self._ask_network, index) for index in range(len(self.run.networks))]
        answers = [wait() for wait in waits]
        return activations.combine_answers(answers, self.run.world, self.stimuli, self.settings)

    def _ask_network(self, index: int) -> dict[str, np.ndarray]:
        load = partial(self._load, number=index)
        network = self.run.networks[index]
        return activations.answer_stimuli(network, load, self.stimuli, self.settings)

    def _compare_exactly(self, begin: Begin) -> xr.Dataset:
        """Compare the exact posteriors of the networks with those of the two samplers."""
        number = min(self.settings.exact.networks, len(self.run.networks))
        waits = [begin(self._sample_exactly, index) for index in range(number)]
        sampled, answers = [wait() for wait in waits], self.read("activations.nc")
        return compare_with_exact(self.stimuli, self.settings, answers, sampled)

    def _sample_exactly(self, index: int) -> tuple[xr.Dataset, list[str]]:
        return sample_exactly(self.run, self.stimuli, self.settings, index)

    def _write_table(self) -> list[Path]:
        table = activations.flatten_activations(self.read("activations.nc"))
        dictionary = activations.describe_columns(list(table.columns))
        text = table.to_csv(index=False, float_format="%.7g")
        flat, columns = (self.folder / name for name in ("activations.csv.gz", "dictionary.csv"))
        with write_atomically(flat) as temporary:
            temporary.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))
        write_text_atomically(columns, dictionary.to_csv(index=False))
        return [flat, columns]

    def _write(self, name: str, dataset: xr.Dataset) -> list[Path]:
        with write_atomically(self.folder / name) as temporary:
            dataset.to_netcdf(temporary, engine="scipy")
        return [self.folder / name]

    def read(self, name: str) -> xr.Dataset:
        """Read a dataset that `probe` wrote.

        Parameters
        ----------
        name : str
            Its file name, such as "activations.nc".

        Returns
        -------
        Dataset
            The content of the file.

        Raises
        ------
        UserError
            Where the file is missing or damaged, with the command that writes it.
        """
        return activations.read_dataset(self._find(name))

    def read_comparison(self) -> xr.Dataset:
        """Read the comparison with the exact posterior, with the results of NUTS where it was run.

        Returns
        -------
        Dataset
            The content of exact.nc; variables of NUTS are NaN where it was not run.
        """
        exact = self.read("exact.nc")
        if self.settings.nuts.networks:
            exact = exact.merge(self.read("nuts.nc"), join="left", combine_attrs="override")
        return exact

    def _find(self, name: str) -> Path:
        path = self.folder / name
        self._check([path], PROBED, "probe")
        return path

    def _check(self, needed: list[Path], stages: Iterable[str], command: str) -> None:
        """Refuse files of earlier stages that are missing or damaged."""
        way_out = f"`equivocal {command} --out {self.folder}`"
        if missing := [path for path in needed if not path.exists()]:
            raise UserError(
                f"{join_names(map(str, missing), most=3)} is missing; {way_out} writes it."
            )
        if damaged := [path for path in self.store.find_damaged(*stages) if path in needed]:
            names = join_names(map(str, damaged))
            raise UserError(f"{names}: checksum mismatch; {way_out} makes it again.")

    def analyse(self) -> bool:
        """Write tables and claims unless they are finished.

        Returns
        -------
        bool
            Whether they were written now.

        Raises
        ------
        UserError
            Where the activations are missing or damaged.
        """
        self._find("activations.nc")
        return self.store.make("analyse", self.hash_results(*ANALYSED), self._write_analysis)

    def check_analysis(self) -> None:
        """Check that tables and claims are complete and have not been altered since `analyse`.

        Raises
        ------
        UserError
            Where a file is missing or damaged, with the command that writes it.
        """
        tables = sorted((self.folder / "tables").glob("*.csv"))
        needed = [self.folder / name for name in NEEDED]
        self._check([*needed, *tables], ["analyse"], "analyse")

    def hash_results(self, *patterns: str) -> str:
        """Return a hash of result files and of the package's code.

        Parameters
        ----------
        *patterns : str
            Glob patterns of files in the folder.

        Returns
        -------
        str
            16 hexadecimal digits.
        """
        paths = sorted(path for pattern in patterns for path in self.folder.glob(pattern))
        files = [(str(path.relative_to(self.folder)), hash_files(path)) for path in paths]
        return hash_content(files, code=())

    def _write_analysis(self) -> list[Path]:
        dataset = self.read("activations.nc")
        tables = compute_tables(dataset)
        written = {f"tables/{name}.csv": table for name, table in tables.items()}
        written["claims.csv"] = judge_claims(dataset, tables, self.collect_evidence())
        if self.settings.name in PRINTED_STUDIES:
            written["tables/impossible_numbers.csv"] = find_impossible_numbers()
        for name, table in written.items():
            write_text_atomically(self.folder / name, table.to_csv(index=False))
        return [self.folder / name for name in written]

    def collect_evidence(self) -> dict[str, Any]:
        """Collect the evidence for claims that the activations do not contain.

        Returns
        -------
        dict of str to Any
            As `judge_claims` takes it.
        """
        scores = self.run.scores
        evidence: dict[str, Any] = {
            "accuracy": scores["unit_accuracy"].tolist(),
            "all_zeros": self.mean_scores["all_zeros"],
            "exact_match": scores["exact_match"].tolist(),
        }
        if self.settings.exact.networks:
            exact = self.read_comparison()
            evidence["exact"] = {**exact.attrs, "networks": exact.sizes["network"]}
            for who in (name for name in ("paper", "converged", "nuts") if f"{name}_sd" in exact):
                sd, shift = exact[f"{who}_sd"], abs(exact[f"{who}_mean"] - exact["exact_mean"])
                ratios = (part / exact["exact_sd"] for part in (sd, shift))
                evidence["exact"][who] = [part.values[sd.notnull()] for part in ratios]
        if self.settings.nuts.networks:
            evidence["nuts"] = self.read("nuts.nc").attrs
        if (self.folder / FRONTIER).exists():
            evidence["frontier"] = read_table(self.folder / FRONTIER)
        return evidence


_reopened: list[Study] = []


def _reopen(settings: StudySettings, folder: Path) -> Study:
    """Open a study in a worker; calls that follow find what earlier ones have loaded."""
    if not _reopened or (_reopened[0].settings, _reopened[0].folder) != (settings, folder):
        _reopened[:] = [Study(settings, folder)]
    return _reopened[0]
