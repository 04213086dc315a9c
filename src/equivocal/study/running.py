"""A study in its folder: what each stage reads and writes, and what it depends on.

    train    run.toml, networks/        (`equivocal.gestalt`)
    infer    posteriors/                a posterior per sampler, prior variance and network
    probe    activations.nc, .csv.gz    answers to the stimuli; path.nc along τ; nuts.nc beside NUTS
    analyse  tables/, claims.csv
    report   figures/, report.html      (`equivocal.report`)

A study is begun and opened by `opening`.
"""

import gzip
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.gestalt import Run
from equivocal.gestalt.storage import locate_network
from equivocal.inference import LastLayer, collect_last_layer, infer_posterior
from equivocal.progress import Advance
from equivocal.sampling import Posterior
from equivocal.store import check_netcdf
from equivocal.store.files import write_atomically, write_text_atomically
from equivocal.store.stages import Stages, hash_code, hash_content, hash_files
from equivocal.study.activations import activations, dictionary, tidy, units_of
from equivocal.study.against_nuts import against_nuts
from equivocal.study.claims import claims
from equivocal.study.dataset_checks import check_dataset
from equivocal.study.impossible import impossible_numbers
from equivocal.study.paths import effect_path
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli, load_stimuli
from equivocal.study.tables import tables
from equivocal.world import World

__all__ = ["Study"]

Job = tuple[str, float, int]  # sampler, prior variance, network
ANALYSED = ("activations.nc", "nuts.nc", "scores.csv", "settings.toml")


@dataclass(eq=False)
class Study:
    """Settings and a folder; stages are methods, each does what is not done yet."""

    settings: StudySettings
    folder: Path

    @cached_property
    def stages(self) -> Stages:
        """What is finished."""
        return Stages(self.folder)

    @cached_property
    def world(self) -> World:
        """As the settings name it."""
        return World.load(self.settings.world_source)

    @cached_property
    def run(self) -> Run:
        """The trained networks."""
        if not (self.folder / "run.toml").exists():
            raise UserError(
                f"{self.folder} holds no trained networks; `equivocal reproduce --out "
                f"{self.folder}` trains them, and `equivocal train` trains others."
            )
        return Run.load(self.folder)

    @cached_property
    def stimuli(self) -> Stimuli:
        """The sentences, checked against the world of the networks."""
        return load_stimuli(self.folder / "stimuli.csv", self.run.world)

    def _jobs(self) -> Iterator[Job]:
        """Sampler, prior variance and network of every posterior, networks outermost."""
        for index in range(len(self.run.networks)):
            for sampler in self.settings.inference.samplers:
                for variance in self.settings.inference.prior_variances:
                    yield sampler, variance, index

    @cached_property
    def _networks_key(self) -> list[str]:
        """What is learned from a corpus depends on it, on the network and on the world."""
        training = self.run.settings
        corpus = [training.seed, training.sentences, training.held_out]
        return [
            hash_content(
                # by number: in the order of names, 100 would come before 11
                hash_files(locate_network(self.folder, index)),
                self.run.world.fingerprint,
                corpus,
            )
            for index in range(training.networks)
        ]

    def _posterior_key(self, sampler: str, variance: float, index: int) -> str:
        inference = self.settings.inference
        how = inference.samplers[sampler].model_dump()
        seed = inference.seed_of(index)
        units = units_of(self.run.world, self.stimuli, self.settings)
        return hash_content(self._networks_key[index], how, variance, inference.rows, seed, units)

    def _layer(self, index: int) -> LastLayer:
        """The rows and trained weights of the units that are sampled."""
        network, units = self.run.networks[index], self.run.world.units
        layer = collect_last_layer(self.run, network, self.settings.inference.rows)
        wanted = units_of(self.run.world, self.stimuli, self.settings)
        return layer.select([units.index(unit) for unit in wanted])

    def infer(self, on_step: Advance) -> None:
        """Every posterior that is not there yet; one network's rows are held at a time."""
        jobs = list(self._jobs())
        layer_of = lru_cache(maxsize=1)(self._layer)
        for done, job in enumerate(jobs):
            sampler, variance, index = job
            on_step(done, len(jobs), f"network {index}, {sampler}, prior variance {variance:g}")
            path = posterior_path(self.folder, *job)
            work = partial(self._infer_one, layer_of, job, path)
            key = self._posterior_key(*job)
            self.stages.do(_stage_of(*job), key, [path], work)
        on_step(len(jobs), len(jobs), "all posteriors are there")

    def _infer_one(self, layer_of: Callable[[int], LastLayer], job: Job, path: Path) -> None:
        sampler, variance, index = job
        inference = self.settings.inference
        how, seed = inference.samplers[sampler], inference.seed_of(index)
        infer_posterior(layer_of(index), how, variance, seed).save(path)

    @cached_property
    def _probe_key(self) -> str:
        posteriors = [self._posterior_key(*job) for job in self._jobs()]
        asked = self.settings.stimuli.model_dump(exclude={"file"})
        named = [self.settings.name, self.settings.quick_run, self.settings.inference.central_prior]
        return hash_content(posteriors, asked, named, hash_files(self.folder / "stimuli.csv"))

    def probe(self, on_step: Advance) -> None:
        """Answers to the stimuli, the effect along τ, and NUTS beside."""
        missing = [job for job in self._jobs() if not posterior_path(self.folder, *job).exists()]
        if missing:
            raise UserError(
                f"{len(missing)} posteriors are missing in {self.folder}; `equivocal infer --out "
                f"{self.folder}` makes them."
            )
        if altered := self.stages.altered(_stage_of(*job) for job in self._jobs()):
            raise UserError(
                f"{join_names(map(str, altered))} is not as it was written; `equivocal infer --out "
                f"{self.folder}` makes it again."
            )
        inference, path, nuts = self.settings.inference, self.settings.path, self.settings.nuts
        parts: list[tuple[str, str, list[Path], Callable[[], object]]] = [
            ("probe", self._probe_key, self._activation_files(), self._write_activations),
            (
                "path",
                hash_content(self._probe_key, path.model_dump(), inference.model_dump()),
                [self.folder / "path.nc"],
                lambda: self._write("path.nc", effect_path(self.run, self.stimuli, self.settings)),
            ),
        ]
        if nuts.networks:
            parts.append(
                (
                    "nuts",
                    hash_content(self._probe_key, nuts.model_dump(), inference.model_dump()),
                    [self.folder / "nuts.nc"],
                    lambda: self._write(
                        "nuts.nc", against_nuts(self.run, self.stimuli, self.settings)
                    ),
                )
            )
        for done, (name, key, files, work) in enumerate(parts):
            on_step(done, len(parts), name)
            self.stages.do(name, key, files, work)
        on_step(len(parts), len(parts), "answered")

    def _activation_files(self) -> list[Path]:
        names = ("activations.nc", "activations.csv.gz", "dictionary.csv")
        return [self.folder / name for name in names]

    def _write_activations(self) -> None:
        dataset = activations(
            self.run.networks,
            lambda *job: Posterior.load(posterior_path(self.folder, *job)),
            self.stimuli,
            self.settings,
        )
        self._write("activations.nc", dataset)
        flat = tidy(dataset)
        frame = flat.to_dataframe().dropna(subset="mle").reset_index()
        text = frame.to_csv(index=False, float_format="%.7g")
        with write_atomically(self.folder / "activations.csv.gz") as temporary:
            temporary.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))
        words = dictionary(list(frame.columns)).to_csv(index=False)
        write_text_atomically(self.folder / "dictionary.csv", words)

    def _write(self, name: str, dataset: xr.Dataset) -> None:
        with write_atomically(self.folder / name) as temporary:
            dataset.to_netcdf(temporary, engine="scipy")

    def found(self, name: str) -> Path:
        """A file that `probe` wrote."""
        path = self.folder / name
        if not path.exists():
            raise UserError(f"{path} is missing; `equivocal probe --out {self.folder}` writes it.")
        if path in self.stages.altered(("probe", "path", "nuts")):
            raise UserError(
                f"{path} is not as it was written; `equivocal probe --out {self.folder}` writes "
                "it again."
            )
        return path

    def read(self, name: str) -> xr.Dataset:
        """A dataset that `probe` wrote."""
        path = self.found(name)
        try:
            check_netcdf(path)
            with warnings.catch_warnings():  # of variables that the next check refuses
                warnings.simplefilter("ignore", xr.SerializationWarning)
                dataset = xr.load_dataset(path, engine="scipy", decode_times=False)
            check_dataset(name, dataset)
            return dataset
        # an AttributeError is xarray's, of text that is none
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, and `equivocal probe --out "
                f"{self.folder}` writes it again."
            ) from None

    def evidence(self) -> dict[str, Any]:
        """What claims rest on beside the activations."""
        scores = self.run.scores
        found: dict[str, Any] = {
            "accuracy": scores["unit_accuracy"].tolist(),
            "all_zeros": float(scores["all_zeros"].mean()),
            "exact_match": scores["exact_match"].tolist(),
        }
        if self.settings.nuts.networks:
            found["nuts"] = _nuts_evidence(self.read("nuts.nc"))
        return found

    def analyse(self) -> bool:
        """Tables and claims; returns whether they were written now."""
        self.found("activations.nc")
        key = self.key_of_files(*ANALYSED)
        if self.stages.finished("analyse", key):
            return False
        self.stages.mark("analyse", key, self._write_analysis())
        return True

    def check_analysis(self) -> None:
        """Refuse tables and claims that are missing, or are not what `analyse` wrote."""
        needed = [self.folder / name for name in ("claims.csv", "tables/paired_models.csv")]
        writes = f"`equivocal analyse --out {self.folder}` writes it"
        if missing := [path for path in needed if not path.exists()]:
            raise UserError(f"{missing[0]} is missing; {writes}.")
        if altered := self.stages.altered(["analyse"]):
            raise UserError(f"{altered[0]} is not as it was written; {writes} again.")

    def key_of_files(self, *patterns: str) -> str:
        """A hash of files of the folder, and of the package's code."""
        paths = sorted(path for pattern in patterns for path in self.folder.glob(pattern))
        files = [(str(path.relative_to(self.folder)), hash_files(path)) for path in paths]
        return hash_content(files, hash_code())

    def _write_analysis(self) -> list[Path]:
        dataset = self.read("activations.nc")
        found = tables(dataset)
        written = {f"tables/{name}.csv": table for name, table in found.items()}
        written["claims.csv"] = claims(dataset, found, self.evidence())
        if self.settings.name == "paper":
            written["tables/impossible_numbers.csv"] = impossible_numbers()
        for name, table in written.items():
            write_text_atomically(self.folder / name, table.to_csv(index=False))
        return [self.folder / name for name in written]


def posterior_path(folder: Path, sampler: str, variance: float, index: int) -> Path:
    """Where the posterior of one network is saved."""
    return folder / "posteriors" / f"{sampler}_{variance:g}" / f"{index:02d}.safetensors"


def _stage_of(sampler: str, variance: float, index: int) -> str:
    return f"infer {sampler} {variance:g} {index}"


def _nuts_evidence(found: xr.Dataset) -> dict[str, Any]:
    samplers, spread = ("paper", "converged"), found["nuts_sd"]
    return {
        "sd_ratio": {s: (found[f"{s}_sd"] / spread).values.tolist() for s in samplers},
        "mean_shift": {
            s: (abs(found[f"{s}_mean"] - found["nuts_mean"]) / spread).values.tolist()
            for s in samplers
        },
        "units": str(found.attrs["units"]),
        "network": int(found.attrs["network"]),
        **{name: float(found.attrs[name]) for name in found.attrs if name.startswith("seconds_")},
    }
