"""The central effect under every specification of a grid: does it hang on an open choice?

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are mean ± 1.96 standard errors over the network × item cells. Cells of one network or item
are not independent, so with few networks the interval describes and does not test.

    DIR/multiverse.csv          one row per specification, in the order of the grid
    DIR/other_grids.csv         rows of other grids run in this folder, kept for the next time
    DIR/networks/KEY/           networks, one folder per weight decay and hidden size

A row is found again by the content of all it depends on. The table is written whole after each
specification, so a run that is killed goes on where it was.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.files import ensure_writable, write_text_atomically
from equivocal.gestalt import Run, TrainingSettings, train
from equivocal.progress import Advance
from equivocal.study.all_items import all_items
from equivocal.study.inference import LastLayer, infer, last_layer_of, seed_of
from equivocal.study.paths import Watched, watched_rows
from equivocal.study.running import Study
from equivocal.study.specifications import CHOICES, Grid, Specification
from equivocal.study.stages import content_key, file_key
from equivocal.study.stimuli import load_stimuli
from equivocal.world import World

__all__ = ["curve_table", "movements", "roles_of", "run_multiverse", "summary"]

NORMAL_95 = 1.96


def run_multiverse(grid: Grid, folder: Path, on_step: Advance) -> pd.DataFrame:
    """Every specification that is not there yet; returns `multiverse.csv`."""
    ensure_writable(folder)
    work = _Work(grid, folder)
    keys = {specification: work.key(specification) for specification in grid.specifications}
    table = _Table(folder, keys.values())
    missing = [one for one, key in keys.items() if key not in table.rows]
    # specifications that share networks and rows follow one another
    missing.sort(key=lambda one: (one.weight_decay, one.hidden, one.rows))
    for done, one in enumerate(missing):
        run = work.run(one, partial(on_step, done, len(missing)))
        table.add({"key": keys[one], **one.model_dump(), **work.effect(one, run)})
        on_step(done + 1, len(missing), "specifications")
    return table.write()


class _Work:
    """What the specifications of a grid share."""

    def __init__(self, grid: Grid, folder: Path) -> None:
        self.study, self.folder = grid.study, folder
        source = Path(grid.study.folder) / grid.study.stimuli.file
        self.world: World = Study(grid.study, source.parent).world
        own = load_stimuli(source, self.world)
        self.condition = own.conditions[-1]
        self.watched = {"study": Watched(own, self.condition)}
        if any(one.items == "all" for one in grid.specifications):
            self.watched["all"] = Watched(all_items(own, self.world), self.condition)
        self._stimuli_key = file_key(source)
        self._last: tuple[TrainingSettings, Run] | None = None
        at_once = grid.study.training_settings.networks
        self._layer = lru_cache(maxsize=at_once)(_layer_of)  # one specification's

    def key(self, one: Specification) -> str:
        """Of all that the row of a specification depends on."""
        sampler = one.sampler(self.study.inference.samplers["paper"]).model_dump()
        seed, training = self.study.inference.seed, asdict(one.training(self.study))
        what = [self.world.fingerprint, self._stimuli_key, self.condition]
        return content_key(one.model_dump(), sampler, seed, training, *what)

    def run(self, one: Specification, say: Callable[[str], None]) -> Run:
        """The networks of a specification: those of the one before, found, or trained now."""
        training = one.training(self.study)
        if self._last is None or self._last[0] != training:
            key = content_key(self.world.fingerprint, asdict(training))
            folder = self.folder / "networks" / key
            found = Run.find(folder, self.world, training)
            if found is None:
                how = f"weight decay {training.weight_decay:g}, {training.hidden} hidden units"
                say(f"training networks ({how})")
                found = train(self.world, training)
                found.save(folder)
            self._last = training, found
        return self._last[1]

    def effect(self, one: Specification, run: Run) -> dict[str, Any]:
        """What a specification gives."""
        watched = self.watched[one.items]
        sampler = one.sampler(self.study.inference.samplers["paper"])
        units_watched = [self.world.units.index(unit) for unit in watched.units]
        trained, bayes, infos = [], [], []
        for index, network in enumerate(run.networks):
            psi = watched_rows(network, watched)
            # units that are not watched would cost time and say nothing
            layer = self._layer(run, index, one.rows).some(units_watched)
            seed = seed_of(self.study.inference, index)
            posterior = infer(layer, sampler, one.prior_variance, seed)
            each = np.arange(len(watched.items))
            asked = list(zip(psi, watched.unit_of, strict=True))  # role by role
            logits = [(rows * layer.trained[units]).sum(axis=1) for rows, units in asked]
            trained.append(expit(np.array(logits, float)))
            bayes.append([posterior.predict_proba(rows)[each, units] for rows, units in asked])
            infos.append(posterior.info)
        row: dict[str, Any] = {"networks": len(infos), "num_items": len(watched.items)}
        for r, role in enumerate(watched.roles):
            of_role = (np.array(values, float)[:, r] for values in (trained, bayes))
            row |= {f"{name}_{role}": value for name, value in _cells(*of_role).items()}
        row["time"] = float(np.median([info.time for info in infos]))  # τ reached
        row["converged"] = all(info.converged for info in infos)
        row["put_back"] = sum(info.repaired for info in infos)  # particles lost on the way
        return row


def _layer_of(run: Run, index: int, rows: str) -> LastLayer:
    return last_layer_of(run, run.networks[index], rows)


def _cells(trained: np.ndarray, bayes: np.ndarray) -> dict[str, float]:
    """Averages over the (network, item) cells of one role, with their interval."""
    change = (bayes - trained).ravel()
    mean = float(change.mean())
    several = len(change) > 1
    half = NORMAL_95 * float(change.std(ddof=1)) / len(change) ** 0.5 if several else np.nan
    ends = {"effect": mean, "low": mean - half, "high": mean + half}
    return {"mle": float(trained.mean()), "bayes": float(bayes.mean()), **ends}


class _Table:
    """Rows on disk, by key."""

    def __init__(self, folder: Path, keys: Iterable[str]) -> None:
        self.path, self.others = folder / "multiverse.csv", folder / "other_grids.csv"
        self.keys = list(keys)
        self.rows = _read(self.others) | _read(self.path)
        left = [row for key, row in self.rows.items() if key not in set(self.keys)]
        if left:
            write_text_atomically(self.others, pd.DataFrame(left).to_csv(index=False))

    def add(self, row: dict[str, Any]) -> None:
        """One more, at once on disk."""
        self.rows[row["key"]] = row
        self.write()

    def write(self) -> pd.DataFrame:
        """What is there of the grid, in its order."""
        found = [self.rows[key] for key in self.keys if key in self.rows]
        text = pd.DataFrame(found).to_csv(index=False)
        write_text_atomically(self.path, text)
        return pd.DataFrame(found)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Rows by key; a file that is missing or damaged holds none, and they are made again."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.keys() >= {"key", *CHOICES}]
    except (OSError, ValueError, csv.Error):
        return {}
    whole = (row for row in rows if None not in row and None not in row.values())
    return {
        row["key"]: {n: text if n == "key" else _value(text) for n, text in row.items()}
        for row in whole
    }


def _value(text: str) -> Any:
    """A cell as it was before it was written; unlike a table's columns, to the last digit."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or np.nan


def roles_of(table: pd.DataFrame) -> list[str]:
    """Roles whose effect is in a table."""
    names = (str(name) for name in table.columns)
    return [name.removeprefix("effect_") for name in names if name.startswith("effect_")]


def curve_table(table: pd.DataFrame, role: str) -> pd.DataFrame:
    """Effect, interval and the choices that vary, as `specification_curve` draws them."""
    varied = [name for name in CHOICES if table[name].nunique() > 1]
    shown = {name: table[f"{name}_{role}"] for name in ("effect", "low", "high")}
    return pd.DataFrame({**shown, **{name.replace("_", " "): table[name] for name in varied}})


def movements(table: pd.DataFrame, role: str) -> "pd.Series[float]":
    """How far each choice alone moves the effect: the largest range with all others held fixed."""
    effect, moved = f"effect_{role}", {}
    for name in CHOICES:
        if table[name].nunique() > 1:
            others = [other for other in CHOICES if other != name]
            groups = table.groupby(others, sort=False)[effect]
            moved[name] = float((groups.max() - groups.min()).max())
    return pd.Series(moved, dtype=float).sort_values(ascending=False, kind="stable")


def summary(table: pd.DataFrame, role: str) -> dict[str, float]:
    """The distribution of the effect over specifications."""
    effect = table[f"effect_{role}"]
    return {
        "share_positive": float((effect > 0).mean()),
        "share_interval_above": float((table[f"low_{role}"] > 0).mean()),
        "smallest": float(effect.min()),
        "median": float(effect.median()),
        "largest": float(effect.max()),
    }
