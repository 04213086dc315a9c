"""`equivocal people published`: comprehenders beside published numbers on who did what.

    OUT/networks/                    trained networks
    OUT/tables/, OUT/figures/, OUT/people.toml

`data/people.csv` contains the numbers, each with its source and its certainty (`status`). The
column `comparable` says whether comprehenders can be compared with a number: "yes"; "assumption",
under one that `note` names; "no". A share y of n people has the deviance

    D = 2 n [ y log(y / p) + (1 − y) log((1 − y) / (1 − p)) ]                                    (1)

from a comprehender that predicts p. The number of answers behind a share is not known, so n is the
number of people, a lower bound. A comprehender that predicts the true p has D = 1 on average: the
floor.

Sentences are selected by plausibility: plausible, unlikely, impossible, or "any", which is pairs of
a plausible and an unlikely sentence, half of each.

Intervals are by the pigeonhole bootstrap: networks and items are both samples, and both are
resampled with replacement at the same time (Owen 2007, Annals of Applied Statistics 1, 386–411).
All questions about an item are resampled together. The ideal comprehender is no sample; its
intervals are over items. With few networks or items, percentile intervals are too narrow. With n
the smaller of the two numbers, percentiles are taken at Φ(± t √(n/(n − 1))), t the quantile of
Student's distribution with n − 1 degrees of freedom (Hesterberg 2015, The American Statistician 69,
371–386, "expanded percentiles"). With five networks about 7 % of intervals miss the share of
all networks; with fewer the resamples do not reach that far, and the interval is too narrow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import rel_entr

from equivocal.network import TrainingSettings
from equivocal.network.runs import choose_training, train_or_load
from equivocal.people.comprehenders import (
    IDEAL,
    ITEM_READINGS,
    PARTICLES,
    VARIANCE,
    Question,
    ask_about_items,
    believe_all,
)
from equivocal.progress import progress
from equivocal.result import Figures, Result, describe_run
from equivocal.statistics import LEVEL
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World
from equivocal.world.reversals import PLAUSIBILITY
from lastlayer.errors import join_names
from lastlayer.seeds import Seed

__all__ = ["PeopleResult", "compare_people"]

ANY = "any"
KEYS = ["construction", "plausibility", "measure"]
DRAWS = 400  # resamples of the bootstrap
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
    questions = ask_about_items(world)
    with hold_folder(out):
        if not (out / "people.toml").exists():
            refuse_foreign_files(out / "networks", ["tables", "figures"])
        run = None if alone else train_or_load(world, training, out / "networks")
        with progress("comprehenders") as advance:
            beliefs = believe_all(world, run, questions, training.seed, advance)
        readings = tabulate_readings(questions, beliefs, seed=training.seed)
        people = compare_with_people(load_people(), readings)
        scores = summarise_scores(people)
        about = {
            "world": world.name,
            "fingerprint": world.fingerprint,
            "parameters": world.parameters,
            "networks": len(run.networks) if run else 0,
            "particles": PARTICLES,
            "prior_variance": VARIANCE,
            "seed": training.seed,
            "training": asdict(training) if run else {},
        }
        result = PeopleResult(
            name="people",
            tables={"people": people, "scores": scores, "readings": readings},
            settings=describe_run(began, **about),
            summary=tuple(describe_people(people, scores, world)),
        )
        announce_overwrite(out / "people.toml", result.settings, COMPARED)
        result.write(out)
    return result


def load_people() -> pd.DataFrame:
    """Load the published numbers about people, one row each, with source and status."""
    with resources.as_file(resources.files("equivocal.people") / "data" / "people.csv") as path:
        return pd.read_csv(path)


def select_questions(
    questions: Sequence[Question], construction: str, plausibility: str
) -> list[int]:
    """Return the numbers of the questions about one kind of sentences, as defined above."""
    items = [question.item for question in questions]
    pairs = {(i.item, i.construction) for i in items if i.plausibility == "unlikely"}
    return [
        number
        for number, item in enumerate(items)
        if construction in (ANY, item.construction)
        and plausibility in (ANY, item.plausibility)
        and (plausibility != ANY or (item.item, item.construction) in pairs)
    ]


def tabulate_readings(
    questions: Sequence[Question], beliefs: Mapping[str, np.ndarray], *, seed: int = 0
) -> pd.DataFrame:
    """Tabulate the shares of readings by construction and plausibility.

    Parameters
    ----------
    questions : sequence of Question
        The questions.
    beliefs : mapping of str to ndarray of shape (networks, questions, 3)
        By comprehender: probabilities of `ITEM_READINGS`; NaN if they are undefined.
    seed : int
        The seed of the bootstrap.

    Returns
    -------
    DataFrame
        comprehender, construction, plausibility, measure ("not literal", `ITEM_READINGS`), value,
        low, high (95 %; NaN for a single network), networks, items.
    """
    rows = []
    constructions = dict.fromkeys(question.item.construction for question in questions)
    for construction in (*constructions, ANY):
        for plausibility in (*PLAUSIBILITY, ANY):
            chosen = select_questions(questions, construction, plausibility)
            items = np.array([questions[number].item.item for number in chosen])
            for name, every in beliefs.items():
                own = every[:, chosen]
                if not chosen or np.isnan(own).any():
                    continue
                where = {"comprehender": name, "construction": construction}
                where |= {"plausibility": plausibility}
                shares = np.concatenate([1 - own[..., :1], own], axis=-1)
                for k, measure in enumerate(("not literal", *ITEM_READINGS)):
                    ends = estimate_share(shares[..., k], items, seed, sample=name != IDEAL)
                    value = dict(zip(("value", "low", "high"), ends, strict=True))
                    sizes = {"networks": len(own), "items": len(set(items))}
                    rows.append(where | {"measure": measure} | value | sizes)
    return pd.DataFrame(rows)


def estimate_share(
    shares: np.ndarray, items: np.ndarray, seed: int, *, sample: bool = True
) -> tuple[float, float, float]:
    """Return the mean of shares (networks, questions) with its interval by the bootstrap.

    Parameters
    ----------
    shares : ndarray of shape (networks, questions)
        Probabilities of an answer.
    items : ndarray of shape (questions,)
        The item that each question is about.
    seed : int
        The same seed gives the same interval.
    sample : bool
        Whether networks are a sample, of which one alone has no interval.
    """
    value, number = float(shares.mean()), np.unique(items, return_inverse=True)[1]
    sizes = len(shares), int(number.max()) + 1
    size = min(sizes) if sample else sizes[1]
    if size < 2:
        return value, np.nan, np.nan
    rng = np.random.default_rng(seed)
    # how often each network and each item is drawn; a single network is, once
    networks, copies = (rng.multinomial(n, np.full(n, 1 / n), DRAWS) for n in sizes)
    weights = copies[:, number] / copies[:, number].sum(axis=1, keepdims=True)
    drawn = np.einsum("dn,nq,dq->d", networks / sizes[0], shares, weights)
    far = stats.t.ppf((1 + LEVEL) / 2, size - 1) * np.sqrt(size / (size - 1))
    low, high = np.quantile(drawn, stats.norm.cdf([-far, far]))
    return value, float(low), float(high)


def compare_with_people(people: pd.DataFrame, readings: pd.DataFrame) -> pd.DataFrame:
    """Compare every comprehender with every human number.

    Parameters
    ----------
    people : DataFrame
        The table of `load_people`.
    readings : DataFrame
        The table of `tabulate_readings`.

    Returns
    -------
    DataFrame
        The rows of `people` for each comprehender, with `found`, `found_low` and `found_high`,
        `deviance` and `floor` of shares. `found` is missing if a comprehender has no counterpart.
    """
    found = {"value": "found", "low": "found_low", "high": "found_high"}
    theirs = readings[["comprehender", *KEYS, *found]].rename(columns=found)
    names = theirs["comprehender"].drop_duplicates()
    table = people.merge(names, how="cross").merge(theirs, on=["comprehender", *KEYS], how="left")
    table.loc[table["comparable"] == "no", list(found.values())] = np.nan
    y, p = table["value"], table["found"]
    table["deviance"] = 2 * table["participants"] * (rel_entr(y, p) + rel_entr(1 - y, 1 - p))
    table["floor"] = table["deviance"].where(table["deviance"].isna(), 1.0)  # under the true p
    return table


def summarise_scores(people: pd.DataFrame) -> pd.DataFrame:
    """Sum deviances and floors for each comprehender.

    Returns
    -------
    DataFrame
        comprehender, deviance and floor (summed over `shares` of readings), p (probability of one
        deviance as large as the largest under the true shares, by Bonferroni's bound, however they
        depend on each other). The sum is not tested: the same people gave all shares, and those of
        unlikely passives are among those of any passives, so that deviances are not independent.
    """
    by = people.groupby("comprehender", sort=False)
    scores = by[["deviance", "floor"]].sum(min_count=1)
    shares = by["deviance"].count()
    p = (shares * stats.chi2.sf(by["deviance"].max(), 1)).clip(upper=1)
    return scores.assign(p=p, shares=shares).reset_index()


def describe_people(people: pd.DataFrame, scores: pd.DataFrame, world: World) -> Iterator[str]:
    """Say how often unlikely passives are misread, and which comprehenders agree with people."""
    known = people[(people["measure"] == "reversed") & people["found"].notna()]
    if known.empty:
        yield (
            f"World {world.name!r} has no unlikely passives, so no comprehender can be compared "
            "with people's share of readings the other way round."
        )
        return
    best, near = scores.sort_values("deviance").iloc[0], scores[scores["p"] > 0.05]["comprehender"]
    shares = zip(known["comprehender"], known["found"], strict=True)
    yield (
        f"People read about {100 * known['value'].iloc[0]:.0f} % of unlikely passives the other "
        "way round; comprehenders: "
        f"{join_names((f'{name} {100 * p:.1f} %' for name, p in shares), most=20)}. Least deviance "
        f"in all {best['shares']} shares: {best['comprehender']}, {best['deviance']:.1f}, where "
        f"the true shares would have {best['floor']:.0f} on average. Not excluded by people's "
        f"shares (5 % level): {join_names(near)}."
    )
