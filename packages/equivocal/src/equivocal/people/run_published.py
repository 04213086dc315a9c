"""Comprehenders compared with people: the function behind `equivocal people published`.

    OUT/networks/                    trained networks
    OUT/tables/, OUT/figures/, OUT/people.toml

Participants answer by drawing from their beliefs, so shares, w and b are expectations.
Comprehenders are defined in `comprehenders`, human numbers and readings in `published`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from equivocal.network import TrainingSettings
from equivocal.network.runs import choose_training, train_or_load
from equivocal.people import comprehenders
from equivocal.people.comprehenders import Arrays, AskedItems, ask_about_items, believe_all
from equivocal.people.published import (
    compare_with_people,
    describe_people,
    load_people,
    summarise_scores,
    tabulate_readings,
)
from equivocal.progress import progress
from equivocal.result import Figures, Result, describe_run
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World
from lastlayer.seeds import Seed

__all__ = ["PeopleResult", "compare_people"]

# settings that make a run a different one
COMPARED = ("world", "parameters", "networks", "seed", "training")


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleResult(Result):
    """Comprehenders compared with people.

    `tables` holds "people" (every human number beside that of every comprehender, with source,
    status and comparability), "scores" (deviances and their floors) and "readings".
    """

    def draw(self) -> Figures:
        """Draw comprehenders beside people."""
        from equivocal.people.figures import draw_people

        return {"people": draw_people(self.tables["people"])}


def compare_people(
    world: str | Path | World = "both_ways",
    out: str | Path = "runs/people",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    training: TrainingSettings | None = None,
) -> PeopleResult:
    """Compare comprehenders with published data on how people read implausible sentences.

    Networks in the folder are reused.

    Parameters
    ----------
    world : str, Path or World
        A world with agents and patients that can be enumerated.
    out : str or Path
        Folder for networks, tables and figures.
    quick : bool
        Two small networks, only to check that it works; do not report the results.
    networks : int, optional
        The number of networks to train; ten unless `quick`. With 0 only the ideal comprehender is
        compared.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same numbers.
    training : TrainingSettings, optional
        How networks are trained; replaces `quick`, `networks` and `seed`.

    Returns
    -------
    PeopleResult
        Already written to `out`.

    Raises
    ------
    UserError
        If an argument is wrong, the world has no such sentences, or the folder holds networks with
        other settings.
    """
    began, out = perf_counter(), Path(out)
    alone = networks == 0 and training is None
    training = training or choose_training(networks or None, seed, quick=quick)
    world = world if isinstance(world, World) else World.load(world)
    asked = ask_about_items(world)
    with hold_folder(out):
        if not (out / "people.toml").exists():
            refuse_foreign_files(out / "networks", ["tables", "figures"])
        run = None if alone else train_or_load(world, training, out / "networks")
        with progress("comprehenders") as advance:
            beliefs, owners = believe_all(run, asked, training.seed, advance)
        tables = _tabulate(asked, beliefs, owners, training.seed)
        about = {
            "world": world.name,
            "fingerprint": world.fingerprint,
            "parameters": world.parameters,
            "networks": len(run.networks) if run else 0,
            "particles": comprehenders.PARTICLES,
            "prior_variance": comprehenders.VARIANCE,
            "seed": training.seed,
            "training": asdict(training) if run else {},
        }
        result = PeopleResult(
            name="people",
            tables=tables,
            settings=describe_run(began, **about),
            summary=describe_people(tables, world),
        )
        announce_overwrite(out / "people.toml", result.settings, COMPARED)
        result.write(out)
    return result


def _tabulate(
    asked: AskedItems, beliefs: Arrays, owners: Arrays, seed: int
) -> dict[str, pd.DataFrame]:
    """Compute every table of the result."""
    readings = tabulate_readings(asked, beliefs, owners, seed=seed)
    people = compare_with_people(load_people(), readings)
    over = np.where(people["comprehender"].isin(list(owners)), "networks and items", "items")
    people["found_interval"] = np.where(people["found_low"].isna(), "", over)
    tables = {"people": people, "scores": summarise_scores(people)}
    return tables | {"readings": readings}
