"""Verdicts by rule, on made-up activations that do and do not show what the paper claims."""

import numpy as np
import pandas as pd
import pytest

from equivocal.study.claims import COLUMNS, judge_claims
from equivocal.study.tables import compute_tables
from tests.study.test_statistics import SLOW, make_dataset

EXACT = {
    "paper": ([1.5, 1.8, 64.0], [0.1, 0.2, 3.0]),  # ratios, shifts
    "converged": ([0.9, 1.0, 1.1], [0.01, 0.02, 0.03]),
    "networks": 3,
    "posteriors": 3,
    "unconverged": "none",
}
NUTS = {
    "seconds_nuts": 100.0,
    "units": "pizza, woman",
    "seconds_paper": 3.0,
    "seconds_converged": 200.0,
}
UNUSED = (*SLOW, "every_word_models")
EVIDENCE = {
    "accuracy": [0.991, 0.992, 0.990],
    "exact_match": [0.5, 0.6, 0.55],
    "all_zeros": 0.973,
    "exact": EXACT,
    "nuts": NUTS,
}


def judge(dataset, evidence=EVIDENCE):
    """Judge claims without computing the tables that no verdict depends on."""
    return judge_claims(dataset, compute_tables(dataset, UNUSED), evidence).set_index("id")


@pytest.fixture(scope="module")
def as_claimed():
    return judge(make_dataset())


def test_one_row_for_each_claim(as_claimed):
    assert list(as_claimed.reset_index().columns) == COLUMNS
    assert len(as_claimed) == 17
    assert (as_claimed.map(len) > 0).all(axis=None)
    assert not as_claimed["why"].str.contains("nan").any()


def test_no_verdict_depends_on_the_mixed_model_or_on_other_words(as_claimed):
    dataset = make_dataset()
    everything = compute_tables(dataset)
    assert everything["mixed_model"]["p"].notna().any()
    pd.testing.assert_frame_equal(
        judge_claims(dataset, everything, EVIDENCE).set_index("id"), as_claimed
    )


@pytest.mark.parametrize(
    "claim",
    [
        *("congruent-high", "congruent-comparable", "mle-keeps-plausible"),
        *("bayes-less-plausible", "bayes-reversed-above-zero", "bayes-reversed-higher"),
        *("bayes-non-relevant-lower", "bayes-more-specific", "small-prior", "large-priors"),
    ],
)
def test_claims_that_hold_are_replicated(as_claimed, claim):
    assert as_claimed.loc[claim, "verdict"] == "replicated", as_claimed.loc[claim, "why"]


def test_claims_that_cannot_be_tested_are_explained(as_claimed):
    for claim in ("mle-reversed-at-zero", "non-relevant-at-zero"):
        assert as_claimed.loc[claim, "verdict"] == "not testable as printed"
        assert "0.343 (n = 10) or 0.351 (n = 8)" in as_claimed.loc[claim, "why"]
    assert as_claimed.loc["accuracy", "verdict"] == "not testable as printed"
    assert "97.30 %" in as_claimed.loc["accuracy", "why"]
    assert "99.1 [98.9, 99.3]" in as_claimed.loc["accuracy", "at_paper_steps"]


def test_opposite_effects_are_not_replicated():
    found = judge(make_dataset(indicated=-1, non_relevant=0.5, plausible=0.5))["verdict"]
    for claim in ("bayes-less-plausible", "bayes-reversed-higher", "bayes-non-relevant-lower"):
        assert found[claim] == "not replicated"
    assert found["bayes-more-specific"] == "not replicated"
    assert found["large-priors"] == "replicated"  # of either sign


def test_unreliable_effects_have_a_direction_only():
    """One network shows a large effect: the means go the right way, the tests see nothing."""
    dataset = make_dataset(indicated=0, noise=0)
    dataset["mean"].loc[{"prior": 1.0, "network": 0, "condition": "reversal"}] *= np.float32(1.5)
    found = judge(dataset)
    assert found.loc["bayes-reversed-higher", "verdict"] == "direction only"
    why = found.loc["bayes-reversed-higher", "why"]
    assert "indicated agent over networks, +0.000233, t = 1.00, p = 0.3632" in why


def test_a_direction_shows_on_logits_too():
    """One large activation more, all others a little less: higher on average, lower on logits."""
    dataset = make_dataset(indicated=0, noise=0)
    here = {"prior": 1.0, "condition": "reversal"}
    dataset["mean"].loc[here] *= np.float32(0.5)
    dataset["mean"].loc[here | {"network": 0}] *= np.float32(40)
    found = judge(dataset)
    assert found.loc["bayes-reversed-higher", "verdict"] == "not replicated"
    assert "over networks, logits, -" in found.loc["bayes-reversed-higher", "why"]


def test_no_difference_counts_only_if_the_test_finds_one_elsewhere():
    """No difference at 0.01 I counts only where the same test sees one at I."""
    null = judge(make_dataset(indicated=0, non_relevant=0, noise=0.3))["verdict"]
    assert null["small-prior"] != "replicated"
    assert null["large-priors"] != "replicated"


def test_low_and_incomparable_activations():
    dataset = make_dataset()
    dataset["mle"].loc[{"condition": "congruent"}] *= np.float32(0.4)
    found = judge(dataset)["verdict"]
    assert found["congruent-high"] == "not replicated"
    assert found["congruent-comparable"] == "not replicated"
    assert found["mle-keeps-plausible"] == "replicated"


def test_convergence_is_mentioned_where_it_differs():
    dataset = make_dataset()
    here = {"sampler": "converged", "condition": "reversal"}
    dataset["mean"].loc[here] = dataset["mle"].sel(condition="reversal") * np.float32(0.9)
    row = judge(dataset).loc["bayes-reversed-higher"]
    assert row["verdict"] == "replicated"
    assert "At convergence the verdict would be: not replicated." in row["why"]
    assert row["at_paper_steps"] != row["at_convergence"]


def test_samplers_beside_the_exact_posterior(as_claimed):
    assert as_claimed.loc["like-hmc", "verdict"] == "direction only"
    assert "Of 3 answers (networks: 3), 67%" in as_claimed.loc["like-hmc", "why"]
    assert "would be: replicated" in as_claimed.loc["like-hmc", "why"]
    assert as_claimed.loc["faster-than-hmc", "verdict"] == "direction only"
    assert "would be: not replicated. It is not faster." in as_claimed.loc["faster-than-hmc", "why"]
    near = EXACT | {"paper": ([1.1, 1.2], [0.1, 0.2])}
    del near["converged"]
    found = judge(make_dataset(3), {"exact": near, "nuts": NUTS})
    assert found.loc["faster-than-hmc", "verdict"] == "replicated"
    assert found.loc["like-hmc", "at_convergence"] == "not run"
    found = judge(make_dataset(3), {"exact": near | {"paper": ([64.0, 80.0], [0.1, 0.2])}})
    assert found.loc["like-hmc", "verdict"] == "not replicated"
    text = "sd 72 × that of Hamiltonian Monte Carlo in the median"
    assert found.loc["like-hmc", "at_paper_steps"].startswith(text)
    assert found.loc["faster-than-hmc", "why"] == "NUTS was not run in this study."


def test_unconverged_units_and_nuts_are_reported():
    nuts = {"nuts": ([0.96, 1.02], [0.01, 0.04])}
    missed = {"unconverged": "pizza of network 2"}
    found = judge(make_dataset(3), {"exact": EXACT | nuts | missed})
    why = found.loc["like-hmc", "why"]
    assert "that did not converge, of 3: pizza of network 2." in why
    assert "NUTS has 0.99 times its standard deviation in the median (0.96 to 1.02" in why
    assert "means within 0.04 of it" in why
    assert "in 2 answers" in why
    plain = judge(make_dataset(3), {"exact": EXACT | missed}).loc["like-hmc"]
    assert plain["verdict"] == found.loc["like-hmc", "verdict"]  # NUTS judges nothing
    assert "NUTS" not in plain["why"]


def test_calibration_is_the_distance_to_the_truth(as_claimed):
    assert as_claimed.loc["better-calibrated", "verdict"] == "not replicated"
    dataset = make_dataset()
    dataset["mean"] = (0.9 * dataset["truth"] + 0.1 * dataset["mle"]).broadcast_like(
        dataset["mean"]
    )
    assert judge(dataset).loc["better-calibrated", "verdict"] == "replicated"
    assert (
        judge(make_dataset(2).assign(truth=dataset["truth"] * np.nan)).loc[
            "better-calibrated", "verdict"
        ]
        == "not run"
    )


def test_missing_parts_are_not_run():
    found = judge(make_dataset().sel(sampler=["paper"], prior=[1.0]), {})
    for claim in ("accuracy", "like-hmc", "faster-than-hmc", "small-prior", "large-priors"):
        assert found.loc[claim, "verdict"] == "not run"
        assert found.loc[claim, "why"].endswith(".")
    assert found.loc["bayes-reversed-higher", "verdict"] == "replicated"
    assert found.loc["bayes-reversed-higher", "at_convergence"] == "not run"
    assert len(judge(make_dataset(1), {})) == 17


def test_other_studies_have_no_claims():
    dataset = make_dataset(2, study="mine")
    found = judge_claims(dataset, compute_tables(dataset, SLOW), EVIDENCE)
    assert found.empty
    assert list(found.columns) == COLUMNS
