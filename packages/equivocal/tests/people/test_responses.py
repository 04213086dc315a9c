"""Answers that logistic models accept, and the messages for others."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.people.join import join
from equivocal.people.models import compare_models
from equivocal.people.simulate import Experiment, simulate
from lastlayer.errors import UserError
from tests.cli.commands import fails, run

BETA = 1.2


def answers(seed=1, **changes):
    """Return trials answered 0 or 1; log odds are the simulated response over its noise."""
    truth = Experiment(participants=16, items=12, positions=2, beta=BETA, intercept=0.3, seed=seed,
                       participant_sd=0.8, item_sd=0.5, noise_sd=1e-6)  # fmt: skip
    trials, measures, _ = simulate(truth)
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(-trials["rt"]))
    trials = trials.assign(response=(rng.random(len(trials)) < chance) * 1.0, chance=chance)
    return trials.assign(row=range(2, len(trials) + 2), **changes), measures


def test_the_effect_on_answers_is_found() -> None:
    found = compare_models(join(*answers()), family="binomial")
    table = found.table.set_index(["measure", "model"])
    row = table.loc[("surprise", "together")]
    assert row["low"] < BETA < row["high"]
    assert row["delta_aic"] > 10
    assert table.loc[("rival", "together"), "delta_aic"] < 2
    assert row["chi2"] == pytest.approx(row["delta_aic"] + 2)
    assert row["family"] == "binomial"
    assert np.isnan(row["sd_residual"])
    assert row["std_estimate"] > row["estimate"] * 0.5  # log odds per sd, not per sd of 0 and 1
    assert table["converged"].all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"response": lambda t: t["response"] * 2}, "is 2 in line .*, and --family bin"),
        ({"response": lambda t: t["chance"]}, "needs 0 or 1; name the value that counts"),
        ({"response": 1.0}, "is 1 in every trial, .* name another column with --response"),
        ({"response": lambda t: (t["item"].astype(int) % 2) * 1.0}, "every item has one answer in"),
        ({"response": lambda t: (t["participant"] < "p09") * 1.0}, "every participant has one ans"),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_modelled_are_refused(changes, message: str) -> None:
    trials, measures = answers()
    with pytest.raises(UserError, match=message):
        compare_models(join(trials.assign(**changes), measures), family="binomial")


def test_separation_names_the_predictors() -> None:
    trials, measures = answers()
    both = trials.merge(measures, on=["item", "position"])
    above = trials.assign(response=(both["surprise"] > 0.2) * 1.0)
    with pytest.raises(UserError, match="^surprise separates the answers.*leave it out"):
        compare_models(join(above, measures), family="binomial")
    assert len(compare_models(join(above, measures, ["rival"]), family="binomial").table) == 1
    kind = np.where(trials["row"] % 5 == 0, "b", "a")
    level = trials.assign(kind=kind, response=np.where(kind == "b", 1.0, trials["response"]))
    with pytest.raises(UserError, match="^kind separates the answers"):
        compare_models(join(level, measures, (), ["kind"]), family="binomial")


def test_options_that_do_not_fit_the_family_are_refused() -> None:
    joined = join(*answers())
    with pytest.raises(UserError, match="--log is for numbers, .* leave one out"):
        compare_models(joined, family="binomial", log=True)
    with pytest.raises(UserError, match="must be gaussian or binomial, got 'poisson'"):
        compare_models(joined, family="poisson")
    with pytest.raises(UserError, match="only two values, 0 and 1, .*; add --family binomial "):
        compare_models(joined)


def test_answers_from_the_command_line(tmp_path: Path) -> None:
    trials, measures = answers()
    said = trials["response"].map({1.0: "yes", 0.0: "no"})
    trials = trials.drop(columns=["rt", "response", "row", "chance"]).assign(answer=said)
    trials.to_csv(tmp_path / "d.csv", index=False)
    measures.to_csv(tmp_path / "m.csv", index=False)
    given = ["people", "compare", "d.csv", "--measures", "m.csv", "--family", "binomial"]
    given += ["--out", "o"]
    wrong = fails(*given, "--response", "answer=maybe", cwd=tmp_path)
    assert wrong.startswith("--response answer=maybe: no row has it; values of answer are ")
    words = fails(*given, "--response", "answer", cwd=tmp_path)
    assert "the response is not a number; correct the table, or name another column" in words
    assert not (tmp_path / "o").exists()
    done = run(*given, "--response", "answer=yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "response answer=yes, binomial family" in done.stdout
    table = pd.read_csv(tmp_path / "o" / "compare.csv").set_index(["measure", "model"])
    assert table.loc[("surprise", "alone"), "low"] < BETA
