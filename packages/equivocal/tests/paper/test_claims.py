"""Verdicts by rule, on made-up activations that do and do not show what the paper claims."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from equivocal.paper import claims
from equivocal.paper.claims import COLUMNS
from equivocal.paper.inference import Beliefs, Known
from equivocal.paper.settings import read_record
from equivocal.paper.tables import tabulate
from equivocal.paper.verdicts import grade_error
from tests.paper.test_statistics import SLOW, make_dataset

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
    return claims.judge(dataset, tabulate(dataset, without=UNUSED), evidence).set_index("id")


@pytest.fixture(scope="module")
def as_claimed():
    return judge(make_dataset())


def test_one_row_for_each_claim(as_claimed):
    assert list(as_claimed.reset_index().columns) == COLUMNS
    assert as_claimed["kind"].value_counts().to_dict() == {
        "result": 14,
        "earlier work": 2,
        "our test": 1,
    }
    assert (as_claimed.map(len) > 0).all(axis=None)
    assert not as_claimed["why"].str.contains("nan").any()


def test_no_verdict_depends_on_the_mixed_model_or_on_other_words(as_claimed):
    dataset = make_dataset()
    everything = tabulate(dataset)
    assert everything["mixed_model"]["p"].notna().any()
    pd.testing.assert_frame_equal(
        claims.judge(dataset, everything, EVIDENCE).set_index("id"), as_claimed
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


@pytest.mark.parametrize("effects", [{"indicated": -1.0}, {"non_relevant": 0.5}])
def test_large_priors_need_the_printed_sign_of_every_measure(effects):
    """The paper prints t > 0 for both indicated units and t < 0 for non-relevant agents."""
    found = judge(make_dataset(**effects)).loc["large-priors"]
    assert found["verdict"] == "not replicated"
    assert "It is not so that all differences have the printed sign" in found["why"]


def test_a_tiny_effect_with_a_tiny_p_has_a_direction_only():
    """+0.0003 on a scale from 0 to 1, alike in every network and item, is no visible bar."""
    dataset = make_dataset(indicated=0, non_relevant=0, plausible=0, noise=0)
    for sampler in ("paper", "converged"):
        here = {"sampler": sampler, "prior": [1.0, 5.0], "condition": "reversal"}
        rng = np.random.default_rng(0)
        gain = 3e-4 * (1 + 0.01 * rng.normal(size=dataset["mle"].sel(condition="reversal").shape))
        raised = dataset["mle"].sel(condition="reversal") + gain.astype("f4")
        dataset["mean"].loc[here] = raised.clip(0, 1).broadcast_like(dataset["mean"].loc[here])
    row = judge(dataset).loc["bayes-reversed-higher"]
    assert row["verdict"] == "direction only"
    assert "not every effect reaches 0.01 (indicated agent +0.0003" in row["why"]
    assert "p < 0.05 (" not in row["why"]  # every test is significant
    limits = read_record("claims")["limits"]
    assert limits["smallest"] == 0.01
    small = np.full(10, 0.1) + 1e-4 * np.arange(10)
    finding = grade_error(small * 0.95, small, "error", "it is smaller", "", limits)
    assert finding.verdict == "direction only"
    assert grade_error(small * 0.85, small, "error", "it is smaller", "", limits).verdict == (
        "replicated"
    )


def test_no_difference_needs_a_visible_one_at_the_central_prior():
    dataset = make_dataset()
    gap = dataset["mean"] - dataset["mle"]
    dataset["mean"] = (dataset["mle"] + gap * np.float32(0.05)).transpose(*dataset["mean"].dims)
    row = judge(dataset).loc["small-prior"]
    assert row["verdict"] == "direction only"
    assert "a difference of at least 0.01" in row["why"]


def test_unreliable_effects_have_a_direction_only():
    """One network shows a large effect: the means go the right way, the tests see nothing."""
    dataset = make_dataset(indicated=0, noise=0)
    dataset["mean"].loc[{"prior": 1.0, "network": 0, "condition": "reversal"}] *= np.float32(1.5)
    dataset["mean"] = dataset["mean"].clip(0, 1)
    found = judge(dataset)
    assert found.loc["bayes-reversed-higher", "verdict"] == "direction only"
    why = found.loc["bayes-reversed-higher", "why"]
    assert "indicated agent over networks, +0.00442, t = 1.00, p = 0.3632" in why


def test_a_direction_shows_on_logits_too():
    """One large activation more, all others a little less: higher on average, lower on logits."""
    dataset = make_dataset(indicated=0, noise=0)
    here = {"prior": 1.0, "condition": "reversal"}
    dataset["mean"].loc[here] *= np.float32(0.5)
    dataset["mean"].loc[here | {"network": 0}] *= np.float32(20)
    dataset["mean"] = dataset["mean"].clip(0, 1)
    found = judge(dataset)
    assert found.loc["bayes-reversed-higher", "verdict"] == "not replicated"
    assert "over networks, logits, -" in found.loc["bayes-reversed-higher", "why"]


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


def test_calibration_is_the_calibration_error(as_claimed):
    """Noise about the truth is calibrated however large it is; a shift is not."""
    assert as_claimed.loc["better-calibrated", "verdict"] == "not replicated"
    dataset = make_dataset()
    noise = np.random.default_rng(1).choice([-0.2, 0.2], dataset["mle"].shape).astype("f4")
    dataset["truth"] = xr.full_like(dataset["truth"], 0.5)
    dataset["mle"] = xr.full_like(dataset["mle"], 0.4)
    dataset["mean"].values[:] = 0.5 + noise  # in two bins, of which each misses by 0.2
    assert judge(dataset).loc["better-calibrated", "verdict"] == "not replicated"
    dataset["mean"].values[:] = 0.5 + 0.1 * noise  # all in the bin of 0.5, where they cancel
    assert judge(dataset).loc["better-calibrated", "verdict"] == "replicated"
    unknown = make_dataset(2).assign(truth=dataset["truth"] * np.nan)
    assert judge(unknown).loc["better-calibrated", "verdict"] == "not run"


def test_every_claim_has_a_verdict_under_each_reading_of_n(small_run):
    """With pairs the effects are the opposite ones; the study's own are as claimed."""
    datasets = {"own": make_dataset(), "pairs": make_dataset(indicated=-1.0)}
    own, pairs = (Known(Beliefs(one, xr.Dataset(), None, None), None) for one in datasets.values())
    tables = tabulate(datasets["own"], without=UNUSED)
    table = claims.judge_readings(small_run, own, {"pairs": pairs}, tables).set_index("id")
    row = table.loc["bayes-reversed-higher"]
    assert (row["verdict"], row["verdict_all"]) == ("replicated", "replicated")
    assert row["verdict_pairs"] == row["verdict_pairs_converged"] == "not replicated"
    assert (table["verdict_all_converged"] == table["verdict_at_convergence"]).all()
    other = judge(datasets["pairs"], {})
    assert (
        other.loc["bayes-more-specific", "verdict"]
        == (table.loc["bayes-more-specific", "verdict_pairs"])
    )


def test_missing_parts_are_not_run():
    found = judge(make_dataset().sel(sampler=["paper"], prior=[1.0]), {})
    for claim in ("accuracy", "like-hmc", "faster-than-hmc", "small-prior", "large-priors"):
        assert found.loc[claim, "verdict"] == "not run"
        assert found.loc[claim, "why"].endswith(".")
    assert found.loc["bayes-reversed-higher", "verdict"] == "replicated"
    assert found.loc["bayes-reversed-higher", "at_convergence"] == "not run"
    assert len(judge(make_dataset(1), {})) == 17
