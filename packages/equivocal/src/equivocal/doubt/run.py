"""Kinds of uncertainty compared with the truth: the function behind `equivocal doubt`.

    OUT/networks/, OUT/dropout_RATE/           trained networks; smoothing_…, word_noise_… likewise
    OUT/answers/KIND/NN.safetensors            the answers of network NN, at every strength; of a
                                               learner, which has no network, 00
    OUT/tables/, OUT/figures/, OUT/doubt.toml  the results, and the settings they depend on

with several corpora OUT/corpus_0/ and so on for the first two. Where reversals have a true answer,
they are what is asked, and only the output units of their nouns are sampled; in other worlds it is
everything, with a few strengths of each kind.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import jax
import pandas as pd

from equivocal.doubt import frontier
from equivocal.doubt.answers import COUNTS, LEARNERS, Answers, Strength
from equivocal.doubt.kinds import KINDS, RETRAINED, Asked, KindSettings, Subject
from equivocal.doubt.layers import LAYERS
from equivocal.doubt.scores import ReversalScores, ask_everything
from equivocal.network import Run, TrainingSettings
from equivocal.network.runs import choose_training, split_corpus, train_or_load
from equivocal.progress import progress
from equivocal.report import Picture, Section
from equivocal.result import Figures, Result, describe_run
from equivocal.store.files import compute_checksum
from equivocal.store.folders import locate_network, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import POSTERIOR_CODE, Store, hash_content
from equivocal.truth import ReversalQuestions, ask_about_reversals
from equivocal.world import World
from lastlayer.errors import UserError, check_known
from lastlayer.seeds import Seed

__all__ = ["UncertaintyResult", "compare_uncertainty"]

# what answers depend on
DOUBT_CODE = (*POSTERIOR_CODE, "equivocal/truth.py", "equivocal/doubt", "equivocal/statistics")
FEW: dict[str, Any] = {  # where everything is asked
    "evidence": (1.0,),
    "other_variances": (),
    "every_step": False,
    "dropout": (0.1,),
    "sizes": (),
}
CAPTIONS = {
    "frontier": "Errors on reversals and on congruent sentences. A line is a kind of uncertainty "
    "at its strengths; the Pareto frontier is behind them.",
    "kinds": "Every kind of uncertainty. A tick is a network, a bar an interval.",
    "ladder": "From the best constant to the learners. The error on reversals, and the spread of "
    "beliefs beside that of the counting learner.",
}
QUICK: dict[str, Any] = {  # only to check that the command works; not to be reported
    "evidence": (1.0, "sentence"),
    "other_variances": (),
    "num_steps": 3,
    "dropout": (0.1,),
    "members": 8,
    "layer_steps": 1,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class UncertaintyResult(Result):
    """The errors of every kind of uncertainty.

    `tables` holds "frontier" (a row for each kind, setting, network and corpus) and "summary" (over
    networks, with intervals, costs, and whether it is on the frontier). `summary` is the answer in
    words.
    """

    title: ClassVar[str] = "How much doubt is warranted?"
    question: ClassVar[str] = (
        "Which kind of uncertainty brings a network's beliefs nearest to the exact ones, at what "
        "price, and is its spread that of a learner who counted the same sentences?"
    )

    def describe_figures(self) -> dict[str, str]:
        """Return what each figure shows, by name."""
        return CAPTIONS

    def list_sections(self, pictures: list[Picture]) -> list[Section]:
        """List the sections of the report: the settings on the frontier, and a picture in each."""
        summary = self.tables["summary"]
        errors = [name for name in summary if str(name).startswith(("kl_", "nll_"))]
        best = summary.loc[summary["on_frontier"], ["kind", "setting", *errors]]
        title = "What no other setting beats by every error"
        return [Section(title=title, table=best), *super().list_sections(pictures)]

    def draw(self) -> Figures:
        """Draw the frontier and the ladder or, where everything is asked, all kinds in rows."""
        from equivocal.doubt.figures import draw_frontier, draw_kinds, draw_ladder

        summary = self.tables["summary"]
        if "kl_reversal" not in summary:
            return {"kinds": draw_kinds(self.tables["frontier"], summary)}
        return {"frontier": draw_frontier(summary), "ladder": draw_ladder(summary)}


def compare_uncertainty(
    world: str | Path | World = "graded",
    out: str | Path = "runs/doubt",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    layers: Sequence[str] = (),
    corpora: int = 1,
    training: TrainingSettings | None = None,
    settings: KindSettings | None = None,
) -> UncertaintyResult:
    """Measure how far each kind of uncertainty is from the truth, at each of its strengths.

    Networks and answers in the folder are reused; missing ones are trained or sampled.

    Parameters
    ----------
    world : str, Path or World
        A world's name, the path of a world file, or a world. In one where reversals are possible
        and ambiguous, such as `slips`, they are what is asked.
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
    corpora : int
        The number of training corpora, each with its own networks; intervals are over corpora if
        there are several.
    training : TrainingSettings, optional
        How networks are trained; replaces `quick`, `networks` and `seed`.
    settings : KindSettings, optional
        The strengths of each kind of uncertainty.

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
    for name in layers:
        check_known(name, LAYERS, "kind of layers")
    if corpora < 1:
        raise UserError(f"corpora must be 1 or more, got {corpora}; one is the default.")
    training = training or choose_training(networks, seed, quick=quick)
    world = world if isinstance(world, World) else World.load(world)
    asked = choose_questions(world)
    settings = settings or choose_strengths(asked, training, quick=quick)
    kinds = [name for name, kind in KINDS.items() if not kind.extra or name in layers]
    kinds = [name for name in kinds if getattr(settings, RETRAINED.get(name, "divisors"))]
    about = describe_run(
        began,
        quick=quick,
        world=world.name,
        fingerprint=world.fingerprint,
        networks=training.networks,
        corpora=corpora,
        kinds=kinds,
        settings=asdict(settings),
        training=asdict(training),
    )
    with hold_folder(out):
        parts = list[pd.DataFrame]()
        for corpus in range(corpora):
            folder = out / f"corpus_{corpus}" if corpora > 1 else out
            refuse_foreign_files(folder / "networks", ["tables", "figures", "doubt.toml"])
            own = replace(training, seed=training.seed + corpus)
            run, answers = answer_all(world, own, folder, asked, kinds, settings)
            scores = build_scores(asked, answers)
            table = frontier.tabulate_frontier(scores, answers, settings.sizes, weigh_network(run))
            parts.append(table.assign(corpus=corpus))
        table = frontier.name_times(pd.concat(parts, ignore_index=True))
        table = table[[*frontier.HEAD, *(name for name in table if name not in frontier.HEAD)]]
        summary = frontier.summarise_frontier(table)
        answer = frontier.describe_frontier(summary)
        result = UncertaintyResult(
            name="doubt",
            tables={"frontier": table, "summary": summary},
            settings={**about, "answer": answer},
            summary=(answer,),
        )
        result.write(out)
    return result


def choose_questions(world: World) -> Asked:
    """Choose what is asked in a world: its reversals if they have a true answer, or everything."""
    try:
        return ask_about_reversals(world)
    except UserError:
        return ask_everything(world)


def build_scores(asked: Asked, answers: dict[str, list[Answers]]) -> frontier.Scores:
    """Build the scores of beliefs; those about reversals are compared with a learner's."""
    if not isinstance(asked, ReversalQuestions):
        return asked
    return ReversalScores(asked, answers["constant"][0].beliefs, answers[COUNTS][0].beliefs)


def choose_strengths(asked: Asked, training: TrainingSettings, *, quick: bool) -> KindSettings:
    """Choose the strengths of each kind: few where everything is asked, fewer to try a command."""
    few = {} if isinstance(asked, ReversalQuestions) else FEW
    return KindSettings(**few | (QUICK if quick else {}), seed=training.seed)


def weigh_network(run: Run) -> tuple[float, float]:
    """Return what one network costs: its training time in seconds, and its size in megabytes."""
    megabytes = sum(leaf.nbytes for leaf in jax.tree.leaves(run.models[0])) / 1e6
    return round(run.seconds, 3) / len(run.networks), megabytes  # rounded as in the saved run


def answer_all(
    world: World,
    training: TrainingSettings,
    folder: Path,
    asked: Asked,
    kinds: Sequence[str],
    settings: KindSettings,
) -> tuple[Run, dict[str, list[Answers]]]:
    """Train or load the networks of one corpus, and return them and their answers by kind."""
    run = train_or_load(world, training, folder / "networks")
    retrained = {
        name: {
            value: train_or_load(
                world, replace(training, **{name: value}), folder / f"{name}_{value:g}"
            )
            for value in getattr(settings, name)
        }
        for name in RETRAINED.values()
    }
    count, answers = len(run.networks), dict[str, list[Answers]]()
    with progress("kinds of uncertainty") as advance:
        for index in range(count):
            subject = Subject(run, retrained, index, asked, settings)
            for kind in kinds:
                advance(index, count, f"network {index}: {kind}")
                answers.setdefault(kind, []).append(load_or_answer(subject, kind, folder))
        if isinstance(asked, ReversalQuestions):
            for name in LEARNERS:
                advance(count, count, name)
                answers[name] = [load_or_learn(asked, run, name, folder)]
        advance(count, count, "all have answered")
    return run, answers


def load_or_answer(subject: Subject, kind: str, folder: Path) -> Answers:
    """Load the answers of a network, or make them."""
    row = KINDS[kind]
    about = (
        compute_checksum(locate_network(folder / "networks", subject.index)),
        [getattr(subject.settings, name) for name in row.depends],
    )
    return _load_or_make(
        folder, subject.run, (kind, subject.index), about, lambda: row.answer(subject)
    )


def load_or_learn(asked: ReversalQuestions, run: Run, name: str, folder: Path) -> Answers:
    """Load the answers of a learner, or let it hear the sentences that the networks heard."""

    def answer() -> Iterator[Strength]:
        return LEARNERS[name](asked, split_corpus(run.world, run.settings)[0])

    return _load_or_make(folder, run, (name, 0), (), answer)


def _load_or_make(
    folder: Path,
    run: Run,
    file: tuple[str, int],
    about: Sequence[Any],
    answer: Callable[[], Iterator[Strength]],
) -> Answers:
    """Load answers, or make them; the key holds everything that they depend on."""
    kind, training = file[0].replace("'", "").replace(" ", "_"), run.settings
    corpus = [training.seed, training.sentences, training.held_out]
    return Store(folder).load_or_make(
        f"answers/{kind}/{file[1]:02d}",
        hash_content(kind, *about, run.world.fingerprint, corpus, code=DOUBT_CODE),
        ".safetensors",
        load=Answers.load,
        make=lambda: Answers.collect([*answer()]),
        save=Answers.save,
    )
