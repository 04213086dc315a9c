"""Uncertainty about reversals whose true answer is known: `equivocal doubt --world slips`.

    OUT/networks/, OUT/dropout_RATE/           trained networks, without and with dropout
    OUT/answers/KIND/NN.safetensors            the answers of network NN, at every strength
    OUT/tables/, OUT/figures/, OUT/frontier.toml

Only answers are stored: sampling a posterior of the few output units involved takes seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np

from equivocal.beliefs import SamplerSettings
from equivocal.doubt import answers as kinds
from equivocal.doubt import frontier
from equivocal.doubt.answers import Answers, Setting
from equivocal.doubt.run import (
    DOUBT_CODE,
    MemberStore,
    UncertaintySettings,
    count_seconds,
)
from equivocal.doubt.scores import Beliefs, RoleQuestions, ask_about_roles, pool_members
from equivocal.doubt.usefulness import tabulate_choices
from equivocal.network import Run, TrainingSettings
from equivocal.network.runs import split_corpus
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.progress import Advance, progress
from equivocal.result import Figures, Result, describe_run
from equivocal.store.folders import locate_network, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import Store, hash_content
from equivocal.world import RoleReversal, World, find_role_reversals
from lastlayer.errors import UserError, check_known
from lastlayer.files import compute_checksum
from lastlayer.seeds import Seed

__all__ = ["FrontierResult", "FrontierSettings", "has_true_reversals", "map_frontier"]

MORE_LAYERS = ("query", "all")
EXAMPLE = 15  # the item that is drawn; in `slips`: during dinner, the pizza eats the woman


@dataclass(frozen=True, kw_only=True)
class FrontierSettings:
    """Every strength of every kind of uncertainty."""

    evidence: tuple[float | str, ...] = (
        *(1.0, 1 / 3, 1 / 10, "sentence"),
        *(1 / 100, 1 / 300, 1 / 1000, 1 / 3000),
    )
    prior_variance: float = 1.0  # the paper's central prior, for the sampler and all of `evidence`
    other_variances: tuple[float, ...] = (0.1, 10.0)
    other_evidence: tuple[float | str, ...] = (1.0, "sentence", 1 / 300)  # with `other_variances`
    num_steps: int = 17
    every_step: bool = True  # answer after every step of the sampler, or after the last one only
    num_particles: int = 50  # of the paper's sampler
    dropout_rate: float = 0.3  # ρ of the paper's sampler
    rates: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)  # of MC dropout
    sizes: tuple[int, ...] = (2, 3, 5, 10, 20)  # of deep ensembles
    tolerance: float = 0.01  # of converged posteriors, in posterior standard deviations
    seed: int = 0

    @property
    def strengths(self) -> list[tuple[float | str, float]]:
        """Pairs of a weight of the evidence and a prior variance."""
        central = product(self.evidence, [self.prior_variance])
        return [*central, *((b, v) for v in self.other_variances for b in self.other_evidence)]

    @property
    def sampler(self) -> SamplerSettings:
        """The paper's sampler."""
        return SamplerSettings(
            method="dropout-deterministic",
            num_particles=self.num_particles,
            num_steps=self.num_steps,
            options={"dropout_rate": self.dropout_rate},
        )


QUICK: dict[str, Any] = {
    "evidence": (1.0, "sentence", 1 / 1000),
    "other_variances": (),
    "num_steps": 3,
    "rates": (0.1,),
}  # only to check that the command works; not to be reported


# the least that the claim of the report needs: trained, the paper's sampler, converged
FEWEST = FrontierSettings(evidence=(1.0,), other_variances=(), rates=(), sizes=(2, 5, 10))


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontierResult(Result):
    """Errors of every kind of uncertainty on reversals and on congruent sentences.

    `tables` holds "frontier" (a row for each kind, setting and network), "frontier_summary" (over
    networks, with intervals, costs, and whether it is on the frontier), "words" (errors at every
    word), "choices" (strengths chosen without knowing the truth) and "example" (beliefs in one
    item).
    """

    example: RoleReversal

    def draw(self) -> Figures:
        """Draw the frontier, the errors at every word, and one sentence with its reversal."""
        from equivocal.doubt.figures import draw_example, draw_frontier, draw_words

        example = self.tables["example"]
        spread = frontier.summarise_example(example)
        sentences = {
            "reversal": str(self.example.reversal),
            "congruent": str(self.example.congruent),
        }
        return {
            "frontier": draw_frontier(self.tables["frontier_summary"]),
            "words": draw_words(self.tables["words"]),
            "example": draw_example(example, spread, sentences, self.example.patient),
        }


def map_frontier(
    world: str | Path | World = "slips",
    out: str | Path = "runs/slips",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    layers: Sequence[str] = (),
    training: TrainingSettings | None = None,
    settings: FrontierSettings | None = None,
) -> FrontierResult:
    """Measure the error of every kind of uncertainty, on reversals and congruent sentences.

    Networks and answers in the folder are reused; missing ones are computed.

    Parameters
    ----------
    world : str, Path or World
        A world in which reversals are possible and ambiguous.
    out : str or Path
        Folder for networks, answers, tables and figures.
    quick : bool
        Two small networks and few strengths, only to check that it works; do not report the
        results.
    networks : int, optional
        The number of networks to train; ten unless `quick`.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same numbers.
    layers : sequence of {"query", "all"}
        Posteriors over more layers to add, which need a GPU; by default none.
    training : TrainingSettings, optional
        How networks are trained; replaces `quick`, `networks` and `seed`.
    settings : FrontierSettings, optional
        The strengths of each kind of uncertainty.

    Returns
    -------
    FrontierResult
        Already written to `out`.

    Raises
    ------
    UserError
        If an argument is wrong, no reversal of the world is ambiguous, or the folder holds networks
        with other settings.
    """
    began, out = perf_counter(), Path(out)
    for name in layers:
        check_known(name, MORE_LAYERS, "kind of layers")
    training = training or choose_training(networks, seed, quick=quick)
    world = world if isinstance(world, World) else World.load(world)
    items = find_role_reversals(world)
    given = settings or FrontierSettings(**(QUICK if quick else {}), seed=training.seed)
    with hold_folder(out):
        refuse_foreign_files(out / "networks", ["tables", "figures", "frontier.toml"])
        run = train_or_load(world, training, out / "networks")
        dropped = {
            rate: train_or_load(world, training, out / f"dropout_{rate:g}", dropout=rate)
            for rate in given.rates
        }
        asker = AnswerStore(out, run, dropped, ask_about_roles(world, items), given)
        with progress("kinds of doubt") as advance:
            found = asker.answer_all(layers, advance)
        result = _build_result(asker, found, items, began)
        result.write(out)
    return result


def _build_result(
    asker: "AnswerStore",
    found: dict[str, list[Answers]],
    items: Sequence[RoleReversal],
    began: float,
) -> FrontierResult:
    """Tabulate and describe the answers of every kind of uncertainty."""
    run, given = asker.run, asker.settings
    megabytes = sum(leaf.nbytes for leaf in jax.tree.leaves(run.models[0])) / 1e6
    one = (count_seconds(run), megabytes)
    table = frontier.tabulate_frontier(asker.asked, found, given.sizes, one)
    summary = frontier.summarise_frontier(table)
    answer, shown = frontier.describe_frontier(summary), EXAMPLE % len(items)
    return FrontierResult(
        name="frontier",
        tables={
            "frontier": table,
            "frontier_summary": summary,
            "words": frontier.summarise_words(table),
            "choices": tabulate_choices(table),
            "example": frontier.tabulate_example(asker.asked, found, shown),
        },
        example=items[shown],
        settings=describe_run(
            began,
            world=run.world.name,
            fingerprint=run.world.fingerprint,
            networks=len(run.networks),
            items=len(items),
            training_seconds_per_network=round(one[0], 3),
            settings=asdict(given),
            training=asdict(run.settings),
            answer=answer,
        ),
        summary=(answer,),
    )


def has_true_reversals(world: World) -> bool:
    """Return whether some reversal is a possible sentence with two readings.

    Parameters
    ----------
    world : World
        Any world; without agents and patients it has no reversals.

    Returns
    -------
    bool
        Whether `map_frontier` can be run in this world.
    """
    try:
        return bool(find_role_reversals(world))
    except UserError:
        return False


@dataclass(frozen=True, eq=False)
class AnswerStore:
    """The answers of networks under every kind of uncertainty, loaded or computed and saved."""

    folder: Path
    run: Run
    dropped: dict[float, Run]  # networks trained with dropout, by its rate
    asked: RoleQuestions
    settings: FrontierSettings

    @cached_property
    def _corpora(self) -> tuple[Any, Any, Any]:
        taught, held_out = split_corpus(self.run.world, self.run.settings)
        rare = kinds.find_rare_sentences(held_out, find_role_reversals(self.run.world))
        return taught, held_out, rare

    def answer_all(self, layers: Sequence[str], advance: Advance) -> dict[str, list[Answers]]:
        """Return the answers of every network, by kind of uncertainty."""
        count, found = len(self.run.networks), dict[str, list[Answers]]()
        for index in range(count):
            advance(index, count, f"network {index}")
            for kind, own in self._answer_each(index, layers):
                found.setdefault(kind, []).append(own)
        advance(count, count, "all networks have answered")
        return found

    def _answer_each(self, index: int, layers: Sequence[str]) -> Iterator[tuple[str, Answers]]:
        """Yield each kind of uncertainty with the answers of a network under it."""
        given, seed = self.settings, self.settings.seed + index
        examine = cache(lambda: kinds.examine(self.run.networks[index], self.asked, *self._corpora))
        how = (given.sampler, given.prior_variance, seed, given.every_step)
        which = (given.strengths, given.tolerance)
        makers: dict[str, tuple[Callable[[], Answers], str]] = {  # and what the answers depend on
            frontier.TRAINED: (lambda: kinds.answer_trained(examine()), ""),
            frontier.SAMPLER: (lambda: kinds.answer_sampler(examine(), *how), str(how)),
            frontier.POSTERIOR: (lambda: kinds.answer_posteriors(examine(), *which), str(which)),
        }
        for layer in layers:
            posterior = partial(self._answer_layers, layer, index)
            makers[layer] = (posterior, str(UncertaintySettings()))
        for kind, (make, decisive) in makers.items():
            yield kind, self._load_or_make(kind, index, make, decisive)
        if given.rates:
            every = [self._answer_with_dropout(rate, index) for rate in given.rates]
            yield frontier.DROPOUT, kinds.join_answers(every)

    def _answer_with_dropout(self, rate: float, index: int) -> Answers:
        """Return the answers under MC dropout of a network trained with dropout."""
        run, kind, seed = self.dropped[rate], f"dropout_{rate:g}", self.settings.seed + index

        def answer() -> Answers:
            examined = kinds.examine(run.networks[index], self.asked, *self._corpora)
            return kinds.answer_dropout(examined, rate, seed, count_seconds(run))

        return self._load_or_make(kind, index, answer, str(seed), folder=kind)

    def _answer_layers(self, layer: str, index: int) -> Answers:
        """Return the answers of a posterior over more layers, as in `compare_uncertainty`."""
        store = MemberStore(
            self.folder, self.run, self.run, UncertaintySettings(seed=self.settings.seed)
        )
        members = store.load_or_make(layer, index)
        beliefs, nothing = pool_members(members, self.asked), np.array([np.nan])
        return Answers(
            settings=(Setting("v = 1", np.nan, 1.0),),
            beliefs=Beliefs(*(part[None] for part in beliefs)),
            seconds=np.array([members.seconds]),
            megabytes=np.array([members.bytes / 1e6]),
            held_out=nothing,
            held_out_rare=nothing,
            bound=nothing,
        )

    def _load_or_make(
        self,
        kind: str,
        index: int,
        make: Callable[[], Answers],
        decisive: str,
        folder: str = "networks",
    ) -> Answers:
        """Load the answers of a network, or make them; they depend on all that `decisive` names."""
        weights = compute_checksum(locate_network(self.folder / folder, index))
        training, world = self.run.settings, self.run.world.fingerprint
        corpus = [training.seed, training.sentences, training.held_out]
        name, code = kind.replace("'", "").replace(" ", "_"), DOUBT_CODE
        return Store(self.folder).load_or_make(
            f"answers/{name}/{index:02d}",
            hash_content(weights, world, corpus, kind, decisive, code=code),
            ".safetensors",
            load=Answers.load,
            make=make,
            save=Answers.save,
        )
