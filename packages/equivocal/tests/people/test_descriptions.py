"""The sentences that describe results about trials."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from equivocal.people.join import join
from equivocal.people.models import compare_models
from equivocal.people.run_compare import describe_comparison
from equivocal.people.simulate import Experiment, simulate


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
