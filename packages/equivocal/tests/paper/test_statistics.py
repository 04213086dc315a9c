"""Measures, tests and tables, against scipy, closed forms and arithmetic by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, logit

from equivocal.paper.claims import find_impossible_numbers
from equivocal.paper.tables import compute_measures, load_printed_values, tabulate
from equivocal.statistics.summaries import (
    compare_pairs,
    compare_with_zero,
    compute_largest_p,
    compute_smallest_p_less,
    correct_holm,
    fit_mixed_model,
)

ITEMS = ["breakfast", "dinner", "morning", "evening"]
FOODS = ["egg", "pizza", "tea", "juice"]
UNITS = ["woman", *FOODS, "chess", "novel"]
PROBES = ["agent", "patient"]
SENTENCE = ("condition", "item", "position", "probe", "unit")
SLOW = ("mixed_model",)  # a table that takes seconds; tests of other tables leave it out


def make_dataset(
    networks=6, *, indicated=1.0, non_relevant=-0.5, plausible=-0.5, study="paper", noise=0.1
):
    """Make activations whose logits change in the reversal by these amounts × the prior variance.

    At 0.01 I the changes are noise about zero; converged ones are a tenth of the paper's.
    """
    rng = np.random.default_rng(0)
    shape = (networks, 2, len(ITEMS), 3, len(PROBES), len(UNITS))
    at = {name: i for i, name in enumerate(UNITS)}
    base, gain = rng.normal(-3, 0.3, shape), np.full(shape, float(non_relevant))
    tracked = [[["woman", food] for food in FOODS], [[food, "woman"] for food in FOODS]]
    for i, food in enumerate(FOODS):
        gain[:, 0, i] = 0
        for probe, unit in enumerate(("woman", food)):
            base[:, :, i, :, probe, at[unit]] += 6
            gain[:, 1, i, :, probe, at[unit]] = plausible
        for probe, unit in enumerate((food, "woman")):
            gain[:, 1, i, :, probe, at[unit]] = indicated
    steps = np.array([1.0, 0.1])[:, None, None] * np.array([0.0, 1.0, 5.0])[None, :, None]
    change = steps.reshape(2, 3, *[1] * 6) * gain
    spread = np.array([0.01, 1, 1]).reshape(3, *[1] * 6) * noise
    mean = expit(base + change + spread * rng.normal(size=(2, 3, *shape)))
    return xr.Dataset(
        {
            "mle": (("network", *SENTENCE), expit(base).astype("f4")),
            "mean": (("sampler", "prior", "network", *SENTENCE), mean.astype("f4")),
            "truth": (SENTENCE, expit(base).mean(axis=0).astype("f4")),
            "critical": (("condition", "item"), np.full((2, len(ITEMS)), 2)),
        },
        coords={
            "sampler": ["paper", "converged"],
            "prior": [0.01, 1.0, 5.0],
            "network": np.arange(networks),
            "condition": ["congruent", "reversal"],
            "item": ITEMS,
            "position": [1, 2, 3],
            "probe": PROBES,
            "unit": UNITS,
            "role": ["agent", "patient"],
            "tracked": (("condition", "item", "role"), tracked),
            "non_relevant": [*FOODS, "chess", "novel"],
        },
        attrs={"study": study, "central_prior": "1.0"},
    )


def find_row(table, **values):
    for column, value in values.items():
        table = table[table[column] == value]
    (row,) = table.to_dict("records")
    return row


def select_critical(dataset, name, probe, units, condition="reversal"):
    """Select activations at the critical word as (…, network, item), in double precision."""
    picked = [
        dataset[name]
        .sel(condition=condition, item=item, position=2, probe=probe, unit=unit)
        .values.astype(float)
        for item, unit in zip(ITEMS, units, strict=True)
    ]
    return np.stack(picked, axis=-1)


def test_measures_pick_the_units_of_each_sentence():
    dataset = make_dataset()
    rows = compute_measures(dataset)
    assert list(rows.columns[-4:]) == ["probe", "mle", "mean", "truth"]
    assert len(rows) == 2 * 3 * 6 * 4 * (3 + 5)  # a congruent sentence has no plausible beside it
    own = {"sampler": "converged", "prior": 5.0, "network": 3, "condition": "reversal"}
    here = {"condition": "reversal", "item": "dinner", "position": 2}
    cell = dataset.sel(here | {"sampler": "converged", "prior": 5.0, "network": 3})
    for measure, probe, units in [
        ("indicated agent", "agent", ["pizza"]),
        ("indicated patient", "patient", ["woman"]),
        ("plausible agent", "agent", ["woman"]),
        ("plausible patient", "patient", ["pizza"]),
        ("non-relevant agent", "agent", ["egg", "tea", "juice", "chess", "novel"]),
    ]:
        row = find_row(rows, **own, item="dinner", measure=measure)
        assert row["probe"] == probe
        for name in ("mle", "mean", "truth"):
            values = cell[name].sel(probe=probe, unit=units).values.astype(float)
            assert row[name] == pytest.approx(values.mean(), rel=1e-12)


def test_measures_of_other_roles_and_more_conditions():
    dataset = make_dataset(2, study="mine").sel(unit=[unit for unit in UNITS if unit != "novel"])
    dataset = dataset.sel(role=["patient"], non_relevant=[])
    odd = dataset.sel(condition=["reversal"]).assign_coords(condition=["odd"])
    odd = odd.assign_coords(tracked=xr.full_like(odd["tracked"], "chess"))
    three = xr.concat([dataset, odd], dim="condition", data_vars="minimal")
    rows = compute_measures(three)
    assert set(rows["measure"]) == {"indicated patient", "plausible patient"}
    assert set(tabulate(three, without=SLOW)["paired_models"]["condition"]) == {"reversal", "odd"}


def test_one_sample_and_paired_are_scipys():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.3, 1, 9), rng.normal(0, 1, 9)
    for ours, theirs, d in [
        (compare_with_zero(x, 0.1), stats.ttest_1samp(x, 0.1), x - 0.1),
        (compare_pairs(x, y), stats.ttest_rel(x, y), x - y),
    ]:
        span = theirs.confidence_interval(0.95)
        np.testing.assert_allclose(
            [ours.t, ours.p, ours.df, ours.effect],
            [theirs.statistic, theirs.pvalue, 8, d.mean() / d.std(ddof=1)],
        )
        shift = 0.1 if ours.mean == pytest.approx(x.mean()) else 0.0
        assert shift or ours.mean == pytest.approx(d.mean())
        np.testing.assert_allclose([ours.ci_low, ours.ci_high], [span.low, span.high], rtol=1e-9)


def test_holm_by_hand():
    np.testing.assert_allclose(correct_holm([0.01, np.nan, 0.04, 0.03]), [0.03, np.nan, 0.06, 0.06])
    assert np.isnan(correct_holm([np.nan])).all()
    p = np.random.default_rng(4).random(9) ** 4
    # statsmodels 0.15.0: statsmodels.stats.multitest.multipletests(p, method="holm")[1]
    theirs = [1, 0.41015502, 1, 0.000384292832, 0.680366354, 0.140635856, 1, 0.00742247263, 1]
    np.testing.assert_allclose(correct_holm(p), theirs, rtol=1e-8)


def test_no_sample_of_activations_exceeds_the_largest_p():
    rng = np.random.default_rng(2)
    for n in (8, 10):
        bound = compute_largest_p(n)
        assert bound == pytest.approx(2 * stats.t.sf(1, n - 1))
        samples = rng.random((500, n)) ** rng.integers(1, 60, (500, 1))  # ever more skewed
        assert stats.ttest_1samp(samples, 0, axis=1).pvalue.max() < bound
        assert compare_with_zero([1.0] + [0.0] * (n - 1)).p == pytest.approx(bound)  # attained


def simulate_crossed(networks=10, items=8, sd_network=0.5, sd_item=0.3):
    rng = np.random.default_rng(3)
    d = 0.8 + rng.normal(0, sd_network, (networks, 1)) + rng.normal(0, sd_item, (1, items))
    d = d + rng.normal(0, 0.2, (networks, items))
    base = rng.normal(-3, 1, (networks, items))
    names = np.repeat(np.arange(networks), items), np.tile(np.arange(items), networks)
    table = pd.DataFrame({"network": names[0], "item": names[1]})
    return table.assign(mle=expit(base).ravel(), mean=expit(base + d).ravel()), d


def test_mixed_model_has_the_closed_form_of_balanced_designs():
    """REML equals the analysis of variance where no variance is negative."""
    table, d = simulate_crossed()
    N, I = d.shape  # noqa: E741
    rows, columns = d.mean(axis=1) - d.mean(), d.mean(axis=0) - d.mean()
    rest = d - d.mean() - rows[:, None] - columns
    ms_network, ms_item = I * rows @ rows / (N - 1), N * columns @ columns / (I - 1)
    ms_rest = (rest**2).sum() / ((N - 1) * (I - 1))
    model = fit_mixed_model(table)
    assert model.note == ""
    assert model.estimate == pytest.approx(d.mean())
    assert model.se == pytest.approx(np.sqrt((ms_network + ms_item - ms_rest) / (N * I)), rel=1e-6)
    assert model.sd_network == pytest.approx(np.sqrt((ms_network - ms_rest) / I), rel=1e-6)
    assert model.sd_item == pytest.approx(np.sqrt((ms_item - ms_rest) / N), rel=1e-6)
    assert model.sd_residual == pytest.approx(np.sqrt(ms_rest), rel=1e-6)
    # the variance of the mean is a sum of mean squares, and Satterthwaite (1946) gives its df
    squares = ms_network**2 / (N - 1) + ms_item**2 / (I - 1) + ms_rest**2 / ((N - 1) * (I - 1))
    df = (ms_network + ms_item - ms_rest) ** 2 / squares
    assert model.df == pytest.approx(df, rel=1e-4)  # 10.04; its curvature is by finite differences
    assert model.p == pytest.approx(2 * stats.t.sf(abs(model.estimate / model.se), df), rel=1e-3)
    half = stats.t.ppf(0.975, df) * model.se
    assert model.ci_high - model.estimate == pytest.approx(half, rel=1e-4)
    assert model.estimate - model.ci_low == pytest.approx(half, rel=1e-4)


def test_tables_can_be_recomputed_from_the_file(tmp_path):
    make_dataset().to_netcdf(tmp_path / "activations.nc")
    with xr.open_dataset(tmp_path / "activations.nc") as file:
        dataset = file.load()
    found = tabulate(dataset)
    assert set(found) == {
        *("against_zero_models", "against_zero_items", "paired_models", "paired_items"),
        *("means", "priors_models", "mixed_model", "every_word_models"),
    }
    means = found["means"].set_index(["condition", "measure", "estimate"])["mean"]
    at_end = dataset.sel(condition="congruent", position=2, probe="agent", unit="woman")
    bayes = at_end["mean"].sel(sampler="paper", prior=1.0).astype(float)
    assert means["congruent", "indicated agent", "mle"] == pytest.approx(
        float(at_end["mle"].mean())
    )
    assert means["congruent", "indicated agent", "paper"] == pytest.approx(float(bayes.mean()))
    assert ("reversal", "plausible patient", "converged") in means
    mle = select_critical(dataset, "mle", "agent", FOODS)
    bayes = select_critical(dataset, "mean", "agent", FOODS)[0]  # (prior, network, item)
    own = {"measure": "indicated agent", "estimate": "paper"}
    for axis, name in ((1, "models"), (0, "items")):
        theirs = stats.ttest_1samp(mle.mean(axis=axis), 0)
        row = find_row(found[f"against_zero_{name}"], measure="indicated agent", estimate="mle")
        np.testing.assert_allclose([row["t"], row["p"]], [*theirs], rtol=1e-6)
        row = find_row(found[f"paired_{name}"], **own)
        theirs = stats.ttest_rel(bayes[1].mean(axis=axis), mle.mean(axis=axis))
        np.testing.assert_allclose([row["t"], row["p"]], [*theirs], rtol=1e-6)
        theirs = stats.ttest_rel(logit(bayes[1]).mean(axis=axis), logit(mle).mean(axis=axis))
        np.testing.assert_allclose([row["logit_t"], row["logit_p"]], [*theirs], rtol=1e-6)
    for prior, values in zip(dataset["prior"].values, bayes, strict=True):
        row = find_row(found["priors_models"], **own, prior=prior)
        theirs = stats.ttest_rel(values.mean(axis=1), mle.mean(axis=1))
        np.testing.assert_allclose([row["t"], row["p"]], [*theirs], rtol=1e-6)
        row = find_row(found["mixed_model"], **own, prior=prior)
        assert row["difference"] == pytest.approx((logit(values) - logit(mle)).mean(), rel=1e-6)


def test_every_word_is_tested_as_if_it_were_the_critical_one():
    dataset = make_dataset(3).sel(prior=[1.0])
    table = tabulate(dataset, without=SLOW)["every_word_models"]
    assert set(table["position"]) == set(dataset["position"].values)
    for position in (1, 2):
        moved = dataset.assign(critical=xr.full_like(dataset["critical"], position))
        for _, row in tabulate(moved, without=SLOW)["paired_models"].iterrows():
            keys = {name: row[name] for name in ("measure", "estimate")}
            same = find_row(table, **keys, position=position)
            np.testing.assert_array_equal(
                [same[n] for n in ("t", "p", "logit_t")], [row[n] for n in ("t", "p", "logit_t")]
            )


def test_corrected_p_are_of_one_table_and_estimate():
    table = tabulate(make_dataset(), without=SLOW)["paired_models"]
    for _, rows in table.groupby("estimate"):
        assert len(rows) == 3
        np.testing.assert_allclose(rows["p_holm"], correct_holm(rows["p"]))
        np.testing.assert_allclose(rows["logit_p_holm"], correct_holm(rows["logit_p"]))


def test_printed_values_stand_beside_ours_in_the_paper_only():
    found = tabulate(make_dataset(3), printed=True, without=SLOW)
    own = {"measure": "non-relevant agent"}
    assert find_row(found["against_zero_items"], **own, estimate="mle")["printed_p"] == "0.8906"
    row = find_row(found["paired_models"], **own, estimate="paper")
    assert (row["printed_t"], row["printed_p"]) == ("-5.4184", "< 0.0001")
    assert row["label"] == "All non-relevant patients"
    assert find_row(found["paired_models"], **own, estimate="converged")["printed_t"] == ""
    by_prior = found["priors_models"].query("estimate == 'paper'")
    assert list(by_prior["printed_p"])[:3] == ["0.2747", "< 0.001", "< 0.001"]
    for table in tabulate(make_dataset(3, study="mine"), without=SLOW).values():
        assert not [column for column in table if column.startswith("printed")]
        assert set(table["label"]) == set(table["measure"])


def test_impossible_numbers_are_found_by_arithmetic():
    found = find_impossible_numbers()
    assert list(found.columns) == ["where", "printed", "why", "arithmetic"]
    printed = list(found["printed"])
    assert printed[:8] == [
        *("p = 0.9153", "p = 0.9029", "p = 0.8691", "p = 0.6642"),
        *("p = 0.8890", "p = 0.8606", "p = 0.8906", "p = 0.7140"),
    ]
    assert printed[8:] == [
        *("t = 4.6858, p < 0.0001", "t = 6.1014, p < 0.0001", "t = -5.4184, p < 0.0001"),
        "t = 4.6858, p < 0.001",
    ]
    assert "0.3434" in found["arithmetic"][0]
    assert "0.3506" in found["arithmetic"][4]
    assert f"{2 * stats.t.sf(4.6858, 9):.2g}" in found["arithmetic"][8]
    assert not found[["why", "arithmetic"]].map(lambda text: "{" in text).any(axis=None)


def test_one_sided_less_makes_the_printed_p_of_the_trained_network_possible():
    """All six of them, and two of the sampler's under no alternative; by data that reach it."""
    found = find_impossible_numbers()
    against_zero = found[found["where"].str.contains("tests against zero")]
    possible = against_zero["why"].str.contains("less than zero”, where p is at least")
    trained = against_zero["where"].str.endswith("trained network")
    assert trained.sum() == 6
    assert (possible == trained).all()
    under_none = against_zero[~possible]
    assert list(under_none["printed"]) == ["p = 0.6642", "p = 0.7140"]
    assert under_none["why"].str.endswith("is possible under none of these.").all()
    for n, bound in ((10, 0.8283), (8, 0.8247)):
        assert compute_smallest_p_less(n) == pytest.approx(bound, abs=5e-5)
        one = np.eye(n)[0]  # all but one are zero: t = 1
        less = stats.ttest_1samp(one, 0, alternative="less").pvalue
        assert compute_smallest_p_less(n) == pytest.approx(less, rel=1e-12)
    items = load_printed_values()["paired_items"].values()  # with n = 8 these are as printed
    assert all(2 * stats.t.sf(abs(float(row["paper"]["t"])), 7) < 1e-4 for row in items)
