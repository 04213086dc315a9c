"""When does uncertainty help? `equivocal doubt` with `--along sentences`, `truth` or `heard`.

sentences   networks trained on 300 to 100,000 sentences of one world
truth       worlds in which a reversal means what it says with probability 0.05 to 0.95; the larger
            that probability, the rarer slips are, so that reversals are equally frequent
heard       reversals that occur never, once or more often in several small training corpora

Reversals are rare, so results depend on which of them a corpus happens to contain. With one corpus
for each size or world, intervals hold for that corpus only; `corpora` sets how many there are.

OUT/CONDITION/    networks and answers of each condition, as `experiments.frontier` stores them
OUT/tables/learning.csv, learning_items.csv, OUT/figures/learning.*, OUT/learning.toml
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

import pandas as pd

from equivocal.doubt import usefulness
from equivocal.doubt.run_frontier import AnswerStore, FrontierSettings
from equivocal.doubt.scores import ask_about_roles
from equivocal.network import TrainingSettings
from equivocal.network.runs import split_corpus
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.progress import progress
from equivocal.result import Figures, Result, describe_run
from equivocal.store.folders import refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World, find_role_reversals
from lastlayer.errors import UserError, check_known
from lastlayer.seeds import Seed

__all__ = ["ALONG", "LearningResult", "follow_learning"]

ALONG = ("sentences", "truth", "heard")
SENTENCES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
# values of rare and slip for which the pizza is the agent of "during dinner, the pizza eats the
# woman" with probability 0.05, 0.25, 0.5, 0.75 and 0.95, while the sentence is equally frequent
WORLDS = ((0.001, 0.035), (0.0052, 0.0278), (0.0104, 0.0189), (0.0154, 0.0097), (0.0194, 0.002))
CORPORA = {"sentences": 1, "truth": 1, "heard": 5}  # corpora of each size or world
HEARD = 3_000  # sentences of each corpus of `heard`
SETTINGS = FrontierSettings(
    evidence=(1.0, "sentence", 1 / 300), other_variances=(), rates=(), sizes=(), every_step=False
)


@dataclass(frozen=True)
class Condition:
    """One value of the property that varies, with one corpus of it."""

    name: str  # the name of its folder
    world: World
    training: TrainingSettings
    corpus: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningResult(Result):
    """Errors of a few kinds of uncertainty along properties of the training corpus.

    `tables` holds "learning" (a row for each condition and kind) and "learning_items" (for each
    network and item).
    """

    along: str

    def draw(self) -> Figures:
        """Draw errors against the property that varies."""
        from equivocal.doubt.figures import draw_learning

        return {"learning": draw_learning(self.tables["learning"], self.along)}


def follow_learning(
    along: str,
    world: str | Path | World = "slips",
    out: str | Path | None = None,
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    corpora: int | None = None,
) -> LearningResult:
    """Follow the errors of a few kinds of uncertainty along properties of the training corpus.

    Parameters
    ----------
    along : {"sentences", "truth", "heard"}
        What varies: the number of training sentences, the probability that a reversal is meant, or
        how often a reversal occurs in the training corpus.
    world : str, Path or World
        A world with ambiguous reversals; for "truth" it must have the parameters of `slips`.
    out : str or Path, optional
        Folder for everything; by default runs/along-ALONG.
    quick : bool
        Two small networks, two conditions, only to check that it works; do not report the results.
    networks, seed : int, optional
        As in `map_frontier`.
    corpora : int, optional
        The number of corpora of each size or world, each with its own networks; one by default,
        five for "heard". With several, intervals cover variation between corpora as well.

    Returns
    -------
    LearningResult
        Errors by condition and kind, and by item.

    Raises
    ------
    UserError
        If an argument is wrong, or no reversal is ambiguous.
    """
    check_known(along, ALONG, "quantity")
    if corpora is not None and corpora < 1:
        raise UserError(f"corpora must be 1 or more, got {corpora}.")
    began, folder = perf_counter(), Path(out or f"runs/along-{along}")
    training = choose_training(networks, seed, quick=quick)
    conditions = _list_conditions(along, world, training, quick, corpora)
    settings = replace(SETTINGS, seed=training.seed, num_steps=2 if quick else SETTINGS.num_steps)
    with hold_folder(folder):
        refuse_foreign_files(folder / conditions[0].name, ["tables", "figures", "learning.toml"])
        parts = [
            _ask_items(condition, folder / condition.name, along, settings)
            for condition in conditions
        ]
        items = pd.concat(parts, ignore_index=True)
        table = usefulness.summarise_learning(items, along)
        result = LearningResult(
            name="learning",
            along=along,
            tables={"learning": table, "learning_items": items},
            settings=describe_run(
                began,
                along=along,
                conditions=[condition.name for condition in conditions],
                settings=asdict(settings),
                training=asdict(training),
            ),
            summary=(usefulness.describe_learning(table, along),),
        )
        result.write(folder)
    return result


def _list_conditions(
    along: str,
    world: str | Path | World,
    training: TrainingSettings,
    quick: bool,
    corpora: int | None,
) -> list[Condition]:
    """List the conditions; a mistake in any of them is raised before anything is trained."""
    base = world if isinstance(world, World) else World.load(world)
    find_role_reversals(base)
    number = 2 if quick else None
    if along == "sentences":
        points = [
            Condition(f"sentences_{n}", base, replace(training, sentences=n))
            for n in SENTENCES[:number]
        ]
    elif along == "truth":
        points = [
            Condition(
                f"rare_{rare:g}_slip_{slip:g}",
                World.load(base.source, rare=rare, slip=slip),
                training,
            )
            for rare, slip in WORLDS[:number]
        ]
    else:
        points = [Condition("", base, training if quick else replace(training, sentences=HEARD))]
    each = corpora or (2 if quick and along == "heard" else CORPORA[along])
    return [_change_corpus(point, corpus) for point in points for corpus in range(each)]


def _change_corpus(point: Condition, corpus: int) -> Condition:
    """Return a condition with the seed of corpus number `corpus`, under a name of its own."""
    name = point.name + (f"_corpus_{corpus}" if corpus or not point.name else "")
    training = replace(point.training, seed=point.training.seed + corpus)
    return replace(point, name=name.removeprefix("_"), training=training, corpus=corpus)


def _ask_items(
    condition: Condition, folder: Path, along: str, settings: FrontierSettings
) -> pd.DataFrame:
    """Train or load the networks of a condition, and ask them about every item."""
    world, items = condition.world, find_role_reversals(condition.world)
    run = train_or_load(world, condition.training, folder / "networks")
    asker = AnswerStore(folder, run, {}, ask_about_roles(world, items), settings)
    with progress(condition.name.replace("_", " ")) as advance:
        found = asker.answer_all((), advance)
    count = usefulness.count_heard(split_corpus(world, condition.training)[0], items)
    named = ", ".join(f"{name} {value:g}" for name, value in world.parameters.items())
    where = {"world": named or world.name, "corpus": condition.corpus}
    table = usefulness.tabulate_items(asker.asked, found, items, count, **where)
    if along == "sentences":
        return table.assign(sentences=condition.training.sentences)
    if along == "truth":
        return table.assign(truth=usefulness.name_belief(table["literal"]))
    return table.assign(heard=usefulness.name_heard(table["count"]))
