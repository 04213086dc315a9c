"""Known scores: of the truth itself, of made-up beliefs, and of reversals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import entr

from equivocal.doubt.comparison import KINDS, SCORES, summarise_in_words, summarise_scores
from equivocal.doubt.comprehenders import PooledBeliefs
from equivocal.doubt.figures import draw_kinds
from equivocal.doubt.members import LAYERS, make_deep_ensemble
from equivocal.doubt.scores import (
    Truth,
    compute_auroc,
    compute_role_scores,
    compute_scores,
    enumerate_truth,
    find_reversals,
    find_study_pairs,
    sum_uncertainty,
)
from equivocal.network import Run
from equivocal.network.probing import score_beliefs
from equivocal.world import ImpossibleSentenceError, World
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def truth(garden: World) -> Truth:
    return enumerate_truth(garden)


def believing(p: np.ndarray) -> PooledBeliefs:
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return PooledBeliefs(np.log(p), np.log1p(-p), np.zeros_like(p))


def test_the_truth_is_at_the_floor_and_perfectly_calibrated(truth: Truth) -> None:
    found = compute_scores(believing(truth.targets), truth)
    assert abs(found["nll_excess"]) < 1e-9
    t = truth.targets
    floor = truth.weight @ (entr(t) + entr(1 - t)).sum(axis=1)
    assert found["nll"] == pytest.approx(floor, rel=1e-12)
    assert floor > 0.1
    for name in ("brier", "calibration_error", "distance"):
        assert found[name] < 1e-12, name
    assert found["epistemic_share"] == pytest.approx(1)  # no member had any entropy of its own


def test_scores_of_a_known_error(truth: Truth) -> None:
    """All beliefs are half the truth, so every error has the same sign."""
    found = compute_scores(believing(truth.targets / 2), truth)
    t, w = truth.targets, truth.weight
    assert found["brier"] == pytest.approx(float(w @ (t**2 / 4).sum(axis=1)), rel=1e-12)
    nll = -(t * np.log(np.maximum(t, 1e-300) / 2) + (1 - t) * np.log1p(-t / 2))
    assert found["nll"] == pytest.approx(float(w @ nll.sum(axis=1)), rel=1e-12)
    less = entr(t) + entr(1 - t)
    assert found["nll_excess"] == pytest.approx(float(w @ (nll - less).sum(axis=1)), rel=1e-12)
    assert found["calibration_error"] == pytest.approx(found["distance"])
    by_role = compute_role_scores(believing(truth.targets / 2), truth)
    assert [row["role"] for row in by_role] == list(truth.roles)
    here, units = truth.role == 1, truth.find_possible_units(1)
    mean = (w[here] @ t[here][:, units]).sum() / (w[here].sum() * units.sum())
    assert by_role[1]["distance"] == pytest.approx(mean / 2)
    assert by_role[1]["weight"] == pytest.approx(w[here].sum())
    squared = w[here] @ (t[here] ** 2 / 4).sum(axis=1)
    assert by_role[1]["brier"] == pytest.approx(squared / w[here].sum())


def test_signs_cancel_in_calibration_and_not_in_distance(truth: Truth) -> None:
    """All beliefs equal the mean of their role and unit, which is calibrated but wrong."""
    p = np.zeros_like(truth.targets)
    for role in range(len(truth.roles)):
        here = truth.role == role
        p[here] = truth.weight[here] @ truth.targets[here] / truth.weight[here].sum()
    found = compute_scores(believing(p), truth)
    assert found["calibration_error"] < 1e-12
    assert found["distance"] > 0.05


def test_scores_of_a_network_agree_with_those_of_training(small_run: Run, truth: Truth) -> None:
    """`belief_error` is the same distance over the units that are possible at the moment."""
    network = small_run.networks[0]
    together = make_deep_ensemble([network]).pool(truth.questions)
    queries = small_run.world.all_derivations.queries
    answers = np.zeros((len(queries), len(small_run.world.units)))
    answers[queries.find_role_probes()] = together.belief
    known = small_run.scores["belief_error"].iloc[0]
    assert score_beliefs(answers, queries)["belief_error"] == pytest.approx(known, rel=1e-4)
    # one network has no epistemic uncertainty; single precision leaves 1.5e-8
    assert compute_scores(together, truth)["epistemic_share"] < 1e-6


def test_reversals_are_impossible_and_congruent_sentences_possible(garden: World) -> None:
    pairs = find_reversals(garden)
    assert len(pairs.congruent) > 5
    for said, turned in zip(*pairs, strict=True):
        garden.true_beliefs(said, "agent")
        with pytest.raises(ImpossibleSentenceError):
            garden.true_beliefs(turned, "agent")
        assert sorted(said.words) == sorted(turned.words)
    assert len({said.tokens for said in pairs.congruent}) == len(pairs.congruent)


def test_a_marker_stays_with_its_role() -> None:
    pairs = find_reversals(World.load("word_order"))
    said = {str(one): str(other) for one, other in zip(*pairs, strict=True)}
    assert said["der hund jagt den fuchs"] == "der fuchs jagt den hund"
    assert said["den hund ruft die frau"] == "die frau ruft der hund"


def test_sentences_possible_in_both_directions_are_no_reversals(garden: World) -> None:
    """Where cats chase dogs too, neither "dog chases cat" nor its reverse is odd."""
    text = garden.text.replace('then = "mouse" }', "then = { mouse = 0.5, dog = 0.5 } }", 1)
    said = [
        [str(one) for one in find_reversals(world).congruent]
        for world in (garden, World.from_toml(text, "both.toml"))
    ]
    assert "dog chases cat" in said[0]
    assert "dog chases cat" not in said[1]
    assert "cat chases mouse" in said[1]


def test_the_papers_items_are_among_its_reversals(paper: World, garden: World) -> None:
    pairs, study = find_reversals(paper), find_study_pairs(paper)
    assert study is not None
    assert find_study_pairs(garden) is None
    assert len(study.congruent) == 8
    known = {(said.tokens, turned.tokens) for said, turned in zip(*pairs, strict=True)}
    assert {(a.tokens, b.tokens) for a, b in zip(*study, strict=True)} <= known


def test_a_world_without_patients_has_no_reversals(garden: World) -> None:
    other = World.from_toml(garden.text.replace("patient", "victim"), "victims.toml")
    with pytest.raises(UserError, match="has no role patient"):
        find_reversals(other)


def test_auroc_is_the_share_of_pairs_in_the_right_order(small_run: Run) -> None:
    rng = np.random.default_rng(0)
    low, high = rng.normal(0, 1, 400), rng.normal(1, 1, 400)
    # P(N(1,1) > N(0,1)) = Φ(1/√2) = 0.760; standard error 0.017
    assert abs(compute_auroc(np.stack([low, high])) - 0.760) < 0.07
    assert compute_auroc(np.stack([high, low])) == pytest.approx(
        1 - compute_auroc(np.stack([low, high]))
    )
    assert compute_auroc(np.ones((2, 3))) == 0.5


def test_uncertainty_is_summed_over_roles_and_units(small_run: Run) -> None:
    both, pairs = make_deep_ensemble(small_run.networks), find_reversals(small_run.world)
    found = sum_uncertainty(both, pairs)
    for row, texts in enumerate(pairs):
        y = both.compute_beliefs(texts).astype(float)  # members × texts × roles × units
        total = (entr(y.mean(axis=0)) + entr(1 - y.mean(axis=0))).sum(axis=(1, 2))
        own = (entr(y) + entr(1 - y)).mean(axis=0).sum(axis=(1, 2))
        np.testing.assert_allclose(found["entropy"][row], total, rtol=1e-3)
        np.testing.assert_allclose(found["epistemic"][row], total - own, rtol=1e-2)


def made_up(networks: int = 4) -> pd.DataFrame:
    """MC dropout is best; the score of the deep ensemble is its row of all networks."""
    rng, rows = np.random.default_rng(2), []
    for kind, level in zip(KINDS, (0.5, 0.3, 0.35, 0.4, 0.2, 0.1), strict=True):
        deep = kind == "deep ensemble"
        names = ["all", *(f"all but {i}" for i in range(networks))] if deep else range(networks)
        for name in map(str, names):
            values = dict.fromkeys(SCORES, level + (0 if name == "all" else rng.normal(0, 0.01)))
            cost = {"seconds": 9.0 * level, "passes": 0, "megabytes": 1.0}
            said = {"converged": True if kind in LAYERS else None, "message": ""}
            members = {"members": 1 if kind == "trained" else 5}
            rows.append({"kind": kind, "network": name, **values, **cost, **members, **said})
    return pd.DataFrame(rows)


def test_intervals_are_over_networks_or_by_the_jackknife() -> None:
    table = made_up()
    summary = summarise_scores(table).set_index("kind")
    assert list(summary.index) == list(KINDS)
    own = table[table["kind"] == "query"]["brier"]
    half = 3.182 * own.std() / 2  # t at 0.975 with three degrees of freedom
    assert summary.loc["query", "brier_high"] == pytest.approx(own.mean() + half, rel=1e-3)
    deep = table[table["kind"] == "deep ensemble"]
    without = deep[deep["network"] != "all"]["auroc"]
    jackknife = 3.182 * np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    assert summary.loc["deep ensemble", "auroc"] == pytest.approx(0.2)
    assert summary.loc["deep ensemble", "auroc_low"] == pytest.approx(0.2 - jackknife, rel=1e-3)


def test_intervals_stay_within_the_range_of_a_score() -> None:
    """Means with a wide spread near the end of a range: AUROC near one, any score near zero."""
    table = made_up()
    high, low = [1.0, 1.0, 1.0, 0.9], [0.0, 0.0, 0.0, 0.1]
    of_last, without = table["kind"] == "last", table["network"].str.startswith("all but")
    for rows in (of_last, without):
        table.loc[rows, ["auroc", "brier"]] = np.column_stack([high, high])
        table.loc[rows, ["epistemic_share", "nll_excess"]] = np.column_stack([low, low])
    table.loc[table["network"] == "all", ["auroc", "brier"]] = 0.99
    table.loc[table["network"] == "all", ["epistemic_share", "nll_excess"]] = 0.01
    summary = summarise_scores(table).set_index("kind")
    for kind in ("last", "deep ensemble"):
        row = summary.loc[kind]
        assert row["auroc_high"] == 1
        assert row["brier_high"] > 1.01  # a sum of squares over units has no upper end
        assert row["epistemic_share_low"] == row["nll_excess_low"] == 0
        assert row["auroc_low"] < 0.9  # the other end stays where it was
        assert row["epistemic_share_high"] > 0.1


def test_the_summary_names_the_best_kind_its_cost_and_whether_it_is_clear() -> None:
    table = made_up()
    said = summarise_in_words(table, summarise_scores(table), training=1.8)
    assert said.startswith("Closest to the truth: MC dropout, 0.1")
    assert "Next: deep ensemble, 0.2, clearly worse" in said
    assert "not converged" not in said
    # the jackknife's interval of the deep ensemble is now wide enough to reach the other's
    without = table["network"].str.startswith("all but")
    table.loc[without, "nll_excess"] += np.linspace(-0.1, 0.1, 4)
    assert "Next: deep ensemble, 0.2, not clearly worse" in summarise_in_words(
        table, summarise_scores(table), 1.8
    )


def test_the_summary_names_posteriors_that_did_not_converge() -> None:
    table = made_up()
    table = table[table["kind"].isin(["trained", *LAYERS])].reset_index(drop=True)
    table.loc[table["kind"] == "last", "converged"] = [True, False, True, True]
    table.loc[table["kind"] == "query", "converged"] = False
    table.loc[table["kind"] == "all", "converged"] = False  # neither the best nor the next
    said = summarise_in_words(table, summarise_scores(table), training=1.8)
    assert "truth: a posterior over the last layer, not converged for 1 of 4 networks, 0.3" in said
    assert "query network, not converged for 4 of 4 networks, 0.35" in said
    assert said.count("not converged") == 2


def test_the_summary_compares_detection_by_the_same_quantity() -> None:
    """A single network has entropy alone; others also have epistemic uncertainty."""
    table = made_up()
    summary = summarise_scores(table)
    rows = {row["kind"]: row for _, row in summary.iterrows()}
    trained, all_layers = rows["trained"], rows["all"]
    ends = [f"{trained[f'auroc_entropy_{end}']:.3f}" for end in ("low", "high")]
    others = [f"{all_layers[f'auroc_{end}']:.3f}" for end in ("low", "high")]
    said = summarise_in_words(table, summary, training=1.8)
    assert said.endswith(
        f"best by the trained network, from its entropy: AUROC {trained['auroc']:.3f} "
        f"({' to '.join(ends)}); from epistemic uncertainty, by a posterior over all weights: "
        f"{all_layers['auroc']:.3f} ({' to '.join(others)})."
    )
    table.loc[table["kind"] == "query", "auroc"] = [0.9, 0.8, 0.9, 0.8]
    assert "query network, from its epistemic uncertainty: AUROC 0.850 (" in summarise_in_words(
        table, summarise_scores(table), training=1.8
    )


def test_kinds_are_compared_by_paired_differences_over_networks() -> None:
    """Networks differ by 0.1 or more, kinds by 0.01: intervals overlap, but not for pairs."""
    table = made_up()
    table = table[table["kind"].isin(["trained", "last", "query"])].reset_index(drop=True)
    networks, own = np.array([0.1, 0.3, 0.2, 0.4]), np.array([0.009, 0.011, 0.012, 0.01])
    for kind, values in {
        "last": networks,
        "query": networks + own,
        "trained": networks + 1,
    }.items():
        table.loc[table["kind"] == kind, "nll_excess"] = values
    summary = summarise_scores(table).set_index("kind")["nll_excess_low"]
    assert summary["query"] < networks.mean()  # by intervals alone nothing would be clear
    assert "query network, 0.261, clearly worse" in summarise_in_words(
        table, summarise_scores(table), 1.8
    )
    # the same values in another order have the same intervals, and no clear difference
    shuffled = table.assign(nll_excess=table["nll_excess"].where(table["kind"] != "query"))
    shuffled.loc[shuffled["kind"] == "query", "nll_excess"] = (networks + own)[[1, 0, 3, 2]]
    assert "query network, 0.261, not clearly worse" in summarise_in_words(
        shuffled, summarise_scores(shuffled), 1.8
    )


def test_the_figure_has_a_row_for_each_kind_and_a_panel_for_each_question() -> None:
    table = made_up()
    summary = summarise_scores(table)
    figure = draw_kinds(table, summary)
    first, _, auroc_axes, cost = figure.axes
    assert [text.get_text() for text in first.get_yticklabels()] == list(KINDS)
    dots = [line for line in first.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([line.get_xdata()[0] for line in dots], summary["nll_excess"])
    assert auroc_axes.get_xlabel().startswith("AUROC of reversals")
    assert len([line for line in cost.lines if line.get_marker() == "o"]) == len(KINDS)
