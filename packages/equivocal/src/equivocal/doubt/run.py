"""Kinds of uncertainty compared: the function behind `equivocal doubt`.

    OUT/networks/, OUT/dropout_RATE/           trained networks, without and with dropout
    OUT/members/KIND/NN.safetensors            the members of network NN, by posterior
    OUT/tables/, OUT/figures/, OUT/doubt.toml  the results, and the settings they depend on

Deep ensembles and masks of MC dropout are not stored, since they follow from the networks.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import pandas as pd

from equivocal.doubt import comparison, members
from equivocal.doubt.comprehenders import Comprehenders, load_members, save_members
from equivocal.doubt.scores import enumerate_truth, find_reversals
from equivocal.network import Run
from equivocal.network.runs import split_corpus
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.progress import progress
from equivocal.result import Figures, Result, describe_run
from equivocal.store.folders import locate_network, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import POSTERIOR_CODE, Store, hash_content
from equivocal.world import World
from lastlayer import network_flow
from lastlayer.errors import check_known
from lastlayer.files import compute_checksum
from lastlayer.seeds import Seed

__all__ = ["UncertaintyResult", "compare_uncertainty"]

# what members and their answers depend on
DOUBT_CODE = (
    *POSTERIOR_CODE,
    *("equivocal/doubt", "equivocal/statistics"),
)


@dataclass(frozen=True, kw_only=True)
class UncertaintySettings:
    """Settings that determine the results, except those of training."""

    prior_variance: float = 1.0  # the paper's central prior
    num_particles: int = members.PARTICLES  # also the number of masks of MC dropout
    cuts: int = 1  # parts into which each hidden layer is cut
    num_steps: int = 40  # the most rounds of the network flow
    tolerance: float = 0.5  # of the network flow, over all directions of a part together
    last_tolerance: float = 0.01  # of the last layer, which converges in a few steps
    dropout: float = members.RATE
    seed: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintyResult(Result):
    """The scores of every kind of uncertainty.

    `tables` holds "scores" (a row for each kind and network), "roles" (the same by role), "summary"
    (a row for each kind, with intervals) and "role_means" (a row for each kind, with its mean
    calibration error by role); `summary` states the answer in words, and whether each kind of
    posterior converged.
    """

    def draw(self) -> Figures:
        """Draw the scores of all kinds side by side."""
        from equivocal.doubt.figures import draw_kinds

        return {"doubt": draw_kinds(self.tables["scores"], self.tables["summary"])}


def compare_uncertainty(
    world: str | Path | World = "paper",
    out: str | Path = "runs/doubt",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    layers: Sequence[str] | None = None,
) -> UncertaintyResult:
    """Compare posteriors over one or more layers, deep ensembles and MC dropout.

    Networks and members in the folder are reused; missing ones are trained or sampled.

    Parameters
    ----------
    world : str, Path or World
        A world's name, the path of a world file, or a world.
    out : str or Path
        Folder for networks, members, tables and figures.
    quick : bool
        Two small networks, few particles and steps, only to check that it works; do not report
        the results.
    networks : int, optional
        The number of networks to train; ten unless `quick`.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same numbers.
    layers : sequence of {"last", "query", "all"}, optional
        The posteriors to compare; by default all three.

    Returns
    -------
    UncertaintyResult
        Already written to `out`.

    Raises
    ------
    UserError
        If an argument is wrong, the world cannot be enumerated or has no reversals, or the folder
        holds networks with other settings.
    """
    began, out = perf_counter(), Path(out)
    chosen = layers or members.LAYERS
    for name in chosen:
        check_known(name, members.LAYERS, "kind of layers")
    kinds = [kind for kind in comparison.KINDS if kind not in members.LAYERS or kind in chosen]
    training = choose_training(networks, seed, quick=quick)
    world = world if isinstance(world, World) else World.load(world)
    enumerate_truth(world)  # fail early if the world lacks a role
    find_reversals(world)
    few = {"num_steps": 1, "num_particles": 8} if quick else {}
    settings = UncertaintySettings(seed=training.seed, **few)
    with hold_folder(out):
        refuse_foreign_files(out / "networks", ["tables", "figures", "doubt.toml"])
        run = train_or_load(world, training, out / "networks")
        place = out / f"dropout_{settings.dropout:g}"
        dropped = train_or_load(world, training, place, dropout=settings.dropout)
        load = MemberStore(out, run, dropped, settings).load_or_make
        with progress("kinds of uncertainty") as advance:
            scores, roles = comparison.score_kinds(world, len(run.networks), load, advance, kinds)
        result = _build_result(began, run, settings, kinds, scores, roles)
        result.write(out)
    return result


def _build_result(
    began: float,
    run: Run,
    settings: UncertaintySettings,
    kinds: list[str],
    scores: pd.DataFrame,
    roles: pd.DataFrame,
) -> UncertaintyResult:
    """Build the result of a comparison from its two tables of scores."""
    summary = comparison.summarise_scores(scores)
    answer = comparison.summarise_in_words(scores, summary, count_seconds(run))
    return UncertaintyResult(
        name="doubt",
        tables={
            "scores": scores,
            "roles": roles,
            "summary": summary,
            "role_means": comparison.average_roles(roles),
        },
        settings=describe_run(
            began,
            world=run.world.name,
            fingerprint=run.world.fingerprint,
            networks=len(run.networks),
            kinds=kinds,
            training_seconds_per_network=round(count_seconds(run), 3),
            settings=asdict(settings),
            training=asdict(run.settings),
            answer=answer,
        ),
        summary=(answer, *comparison.describe_convergence(scores)),
    )


def count_seconds(run: Run) -> float:
    """Return the training time per network, rounded as in the file of a saved run."""
    return round(run.seconds, 3) / len(run.networks)


@dataclass(frozen=True, eq=False)
class MemberStore:
    """The members of every kind of uncertainty in one folder, loaded or made and saved."""

    folder: Path
    run: Run
    dropped: Run  # networks trained with dropout
    settings: UncertaintySettings

    def load_or_make(self, kind: str, index: int) -> Comprehenders:
        """Return the members of one network; for a deep ensemble those of all networks."""
        networks, settings, seed = self.run.networks, self.settings, self.settings.seed + index
        if kind == "trained":
            return members.make_deep_ensemble(networks[index : index + 1])
        if kind == "deep ensemble":
            others = len(networks) - 1
            return members.make_deep_ensemble(networks, count_seconds(self.run) * others)
        if kind == "MC dropout":
            network, seconds = self.dropped.networks[index], count_seconds(self.dropped)
            how = (settings.dropout, settings.num_particles)
            return members.make_mc_dropout(network, *how, seed=seed, seconds=seconds)
        weights = compute_checksum(locate_network(self.folder / "networks", index))
        constants = {} if kind == "last" else network_flow.list_constants()
        return Store(self.folder).load_or_make(
            f"members/{kind}/{index:02d}",
            hash_members(weights, kind, index, settings, constants),
            ".safetensors",
            load=partial(load_members, network=networks[index], kind=kind),
            make=lambda: self._sample(kind, index),
            save=save_members,
        )

    def _sample(self, kind: str, index: int) -> Comprehenders:
        run, settings = self.run, self.settings
        return members.sample_comprehenders(
            run.networks[index],
            split_corpus(run.world, run.settings)[0],
            kind,
            prior_variance=settings.prior_variance,
            num_particles=settings.num_particles,
            cuts=settings.cuts,
            num_steps=None if kind == "last" else settings.num_steps,
            tolerance=settings.last_tolerance if kind == "last" else settings.tolerance,
            seed=settings.seed + index,
        )


def hash_members(
    weights: str | None,
    kind: str,
    index: int,
    settings: UncertaintySettings,
    constants: dict[str, float],
) -> str:
    """Return the key of a posterior's members: a hash of everything they depend on."""
    decisive = asdict(settings)
    decisive.pop("dropout")
    decisive.pop("tolerance" if kind == "last" else "last_tolerance")
    return hash_content(weights, kind, index, decisive, constants, code=DOUBT_CODE)
