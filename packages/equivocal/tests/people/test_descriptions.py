"""The sentences that describe results about trials."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from equivocal.people.join import join
from equivocal.people.models import compare_models
from equivocal.people.run_compare import describe_comparison
from equivocal.people.run_simulate import describe_power
from equivocal.people.simulate import Experiment, simulate


def describe(beta: float, measures: list[str], **how: object) -> str:
    trials, table, _ = simulate(
        Experiment(participants=16, items=12, positions=2, beta=beta, seed=1)
    )
    trials = trials.rename(columns={"rt": "response"}).assign(row=range(len(trials)))
    joined = replace(join(trials, table, measures), columns={"response": "rt"})
    return describe_comparison(compare_models(joined, **how))[0]


def test_measures_are_listed_by_whether_their_interval_excludes_zero() -> None:
    said = describe(40.0, ["surprise", "rival"])
    assert said.startswith("What predicts rt beyond the other measures: surprise, +")
    assert said.count("per unit (95 %") == 2
    assert " Not clearly: rival, " in said
    alone = describe(40.0, ["surprise"], log=True)
    assert alone.startswith("What predicts log(rt): surprise, +")
    assert describe(0.0, ["surprise"]).startswith("Nothing clearly predicts rt: surprise, ")


def describe_responses(respond: Callable[[pd.DataFrame], pd.Series], **how: object) -> str:
    trials, table, _ = simulate(Experiment(participants=12, items=12, positions=1, seed=1))
    trials = trials.assign(row=range(len(trials)), response=respond(trials))
    joined = replace(join(trials, table, ["surprise"]), columns={"response": "it"})
    return describe_comparison(compare_models(joined, **how))[0]


def test_fits_that_did_not_converge_are_not_reported_as_findings() -> None:
    """Eleven of twelve items have one answer only; or responses are averages of items."""

    def answer(trials: pd.DataFrame) -> pd.Series:
        number, first = trials["item"].astype(int), trials["participant"] < "p07"
        return (((number == 1) & first) | (number > 6)).astype(float)

    said = describe_responses(answer, family="binomial")
    assert said.startswith("No estimate: surprise, the variance of item has no finite estimate")
    assert said.endswith("add trials, so that more of them have both answers.")
    said = describe_responses(lambda trials: trials.groupby("item")["rt"].transform("mean"))
    assert said.startswith("No estimate: surprise, no noise is left")
    assert said.endswith("use responses of single trials, not averages.")


def test_the_smallest_sufficient_experiment_is_named() -> None:
    table = pd.DataFrame({"participants": [10, 20, 40], "items": 12, "power": [0.3, 0.85, 0.9]})
    table = table.assign(low=table["power"] - 0.05, high=table["power"] + 0.05)
    said = "20 participants and 12 items detect an effect of 8 per unit in 85 % of"
    assert describe_power(table, 8.0).startswith(said)
    none = "None of these experiments reaches a power of 80 %: 10 participants and "
    assert describe_power(table[:1], 8.0).startswith(none)
