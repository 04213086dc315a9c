"""A study: its settings, world and stimuli, checked before any work, and the folder of its results.

    FOLDER/settings.toml, stimuli.csv   the study's own copies, so that a folder can stand alone
    FOLDER/run.toml, networks/          trained networks (`equivocal.network`)
    FOLDER/posteriors/                  by sampler, prior variance and network; removed once they
                                        have answered, unless the settings keep them
    FOLDER/activations.nc               answers to the stimuli; path.nc along τ; exact.nc, nuts.nc
                                        beside the exact posterior; slips/, in a world with a truth
    FOLDER/pairs/, all/                 the same for another reading of N (`Study.list_readings`)
    FOLDER/tables/, claims.csv          statistics and verdicts
    FOLDER/figures/, report.html

The store (FOLDER/records) finds finished results by keys, which are hashes of everything that a
result depends on. If a result depends on something new, add it to its key here, or outdated results
will be reused. A new check of settings is a function here that `check_study` calls.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from equivocal.beliefs import RowsOfPosterior
from equivocal.network import Run
from equivocal.paper.settings import StudySettings
from equivocal.store import read_text
from equivocal.store.files import (
    ensure_writable,
    read_dataset,
    write_dataset,
    write_text_atomically,
)
from equivocal.store.folders import locate_network
from equivocal.store.store import (
    NETWORK_CODE,
    POSTERIOR_CODE,
    RECORDS,
    Store,
    hash_content,
    hash_files,
)
from equivocal.world import World
from equivocal.world.items import MAX_BYTES, Item, Items, load_stimuli
from lastlayer.errors import UserError, check_known, join_names
from lastlayer.sampling import check_method

__all__ = ["Study", "check_study", "list_non_relevant", "prepare"]

# what posteriors and answers depend on
BELIEF_CODE = (
    *POSTERIOR_CODE,
    *("equivocal/truth.py", "equivocal/statistics"),
    *(f"equivocal/paper/{name}.py" for name in ("activations", "inference", "settings", "study")),
)


READINGS: dict[str, RowsOfPosterior] = {"pairs": "drawn pairs", "all": "every word"}  # §2.4, §2.3


class Job(NamedTuple):
    """One posterior to sample."""

    sampler: str
    variance: float
    network: int

    @property
    def name(self) -> str:
        """The name of its record, and of its file in the folder of the study."""
        return f"posteriors/{self.sampler}_{self.variance:g}/{self.network:02d}"


@dataclass(eq=False)
class Study:
    """What a study is run with; its world and stimuli are loaded when they are needed."""

    settings: StudySettings
    folder: Path
    part: str = ""  # where the results of another reading of N lie in the folder

    def __reduce__(self) -> tuple[Callable[..., "Study"], tuple[StudySettings, Path, str]]:
        """Send a worker only what it needs to open the study itself."""
        return _reopen, (self.settings, self.folder, self.part)

    def list_readings(self) -> dict[str, "Study"]:
        """List the study under each reading of N, by name.

        Where that is not its own reading, only tracked units are sampled, only two networks
        exactly, and what does not depend on the data is left out.
        """
        changes: dict[str, Any] = {
            "inference.units": "tracked",
            "exact.networks": min(2, self.settings.exact.networks),
            "path.num_steps": 1,
            "nuts.networks": 0,
        }
        readings = {}
        for name, rows in READINGS.items():
            other = self.settings.change(changes | {"inference.rows": rows})
            own = rows == self.settings.inference.rows
            readings[name] = self if own else Study(other, self.folder, name)
        return readings

    @cached_property
    def store(self) -> Store:
        """The records of finished results in the folder."""
        return Store(self.folder / self.part)

    @cached_property
    def world(self) -> World:
        """The world that the settings name."""
        return World.load(self.settings.world_source)

    @cached_property
    def stimuli(self) -> Items:
        """The sentences."""
        return load_stimuli(self.settings.stimuli_path, self.world)

    @cached_property
    def run(self) -> Run:
        """The trained networks; in a worker they are loaded, once."""
        return Run.load(self.folder)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The units whose posteriors are sampled, in the world's order."""
        wanted = {*self.stimuli.tracked_units, *self.non_relevant}
        everything = self.settings.inference.units == "all"
        return tuple(unit for unit in self.world.units if everything or unit in wanted)

    @property
    def example(self) -> Item:
        """The item of the last condition that examples are about."""
        item = self.settings.stimuli.example or self.stimuli.items[0]
        return self.stimuli.rows[self.stimuli.conditions[-1], item]

    @property
    def non_relevant(self) -> list[str]:
        """The units that should stay off."""
        return list_non_relevant(self.stimuli, self.settings)

    @cached_property
    def jobs(self) -> list[Job]:
        """The posteriors of the study."""
        inference, networks = self.settings.inference, range(self.run.settings.networks)
        jobs = product(networks, inference.samplers, inference.prior_variances)
        return [Job(sampler, variance, index) for index, sampler, variance in jobs]

    @cached_property
    def _network_keys(self) -> list[str]:
        training = self.run.settings
        corpus = [training.seed, training.sentences, training.held_out]
        # by number, since in alphabetical order 100 comes before 11
        files = (locate_network(self.folder, index) for index in range(training.networks))
        return [
            hash_content(hash_files(file), self.world.fingerprint, corpus, code=NETWORK_CODE)
            for file in files
        ]

    def hash_job(self, job: Job) -> str:
        """Return the key of a posterior."""
        inference = self.settings.inference
        how = inference.samplers[job.sampler].model_dump()
        seed, network = inference.get_seed(job.network), self._network_keys[job.network]
        what = network, how, job.variance, inference.rows, seed, self.units
        return hash_content(*what, code=BELIEF_CODE)

    def hash_beliefs(self, name: str) -> str:
        """Return the key of a dataset of answers, such as "activations" or "path"."""
        settings = self.settings.model_dump(include={"inference", "quick_run", name})
        asked = self.settings.stimuli.model_dump(exclude={"file"})
        stimuli, jobs = hash_files(self.settings.stimuli_path), map(self.hash_job, self.jobs)
        return hash_content(list(jobs), asked, settings, stimuli, name, code=BELIEF_CODE)

    def is_finished(self, name: str) -> bool:
        """Return whether a dataset of answers is in the store."""
        return self.store.find(name, self.hash_beliefs(name), warn=False) is not None

    def keep(self, name: str, make: Callable[[], xr.Dataset]) -> xr.Dataset:
        """Load a dataset of answers from the store, or make and save it."""
        save = write_dataset
        key = self.hash_beliefs(name)
        return self.store.load_or_make(name, key, ".nc", load=read_dataset, make=make, save=save)


_reopened: list[Study] = []


def _reopen(settings: StudySettings, folder: Path, part: str) -> Study:
    """Open a study in a worker; calls that follow find what earlier ones have loaded."""
    opened = [(each.settings, each.folder, each.part) for each in _reopened]
    if opened != [(settings, folder, part)]:
        _reopened[:] = [Study(settings, folder, part)]
    return _reopened[0]


def list_non_relevant(stimuli: Items, settings: StudySettings) -> list[str]:
    """List the units that should stay off: by default those that only some items track."""
    if settings.stimuli.non_relevant:
        return list(settings.stimuli.non_relevant)
    by_item = [
        {unit for c in stimuli.conditions for unit in stimuli.rows[c, item].tracked.values()}
        for item in stimuli.items
    ]
    common = set.intersection(*by_item)
    return [unit for unit in stimuli.tracked_units if unit not in common]


def check_study(settings: StudySettings, world: World, stimuli: Items) -> None:
    """Refuse what would fail only hours later: samplers, probes, units, NumPyro."""
    for name, sampler in settings.inference.samplers.items():
        try:
            check_method(sampler.method, sampler.options)
        except UserError as error:
            raise UserError(f"[inference.samplers.{name}]: {error}") from error
    asked = settings.stimuli
    for role in asked.probes:
        check_known(role, world.roles, "role", "stimuli.probes: ")
    if asked.example:
        check_known(asked.example, stimuli.items, "item", "stimuli.example: ")
    for unit in asked.non_relevant:
        check_known(unit, world.units, "unit", "stimuli.non_relevant: ")
    tracked = dict.fromkeys(role for row in stimuli.rows.values() for role in row.tracked)
    if missing := [role for role in tracked if role not in asked.probes]:
        raise UserError(
            f"the stimuli track {join_names(missing)}, so stimuli.probes must contain it; add "
            "it there."
        )
    if settings.nuts.networks and find_spec("numpyro") is None:
        raise UserError(
            "the study compares its posteriors with NUTS, which needs NumPyro: pip install "
            "'lastlayer[nuts]', or leave it out with --set nuts.networks=0."
        )


def prepare(settings: StudySettings, folder: Path) -> Study:
    """Check a study before any work, and put its settings and stimuli into its folder.

    Parameters
    ----------
    settings : StudySettings
        What the study is run with.
    folder : Path
        Its folder, which is created if it does not exist; the caller holds its lock.

    Returns
    -------
    Study
        The study, with its own copies of settings and stimuli.

    Raises
    ------
    UserError
        For a mistake, or where the folder holds networks with other settings; nothing has been
        written then.
    """
    ensure_writable(folder)
    source, study = settings.stimuli_path, Study(settings, folder)
    check_study(settings, study.world, study.stimuli)
    with warnings.catch_warnings():  # about damaged networks, which training repeats
        warnings.simplefilter("ignore")
        Run.find(folder, study.world, settings.training_settings)  # refuses other networks
    (folder / RECORDS).mkdir(exist_ok=True)  # marks the folder as that of a study
    write_text_atomically(folder / "stimuli.csv", read_text(source, MAX_BYTES))
    settings.change({"stimuli.file": "stimuli.csv"}).write(folder / "settings.toml")
    return study
