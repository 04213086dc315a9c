"""Divergence from exact beliefs, the frontier, and strengths chosen without the truth."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from equivocal.doubt.answers import Answers, Setting
from equivocal.doubt.figures import draw_frontier, draw_learning
from equivocal.doubt.frontier import find_pareto, list_windows
from equivocal.doubt.run_frontier import (
    FrontierSettings,
    has_true_reversals,
    map_frontier,
)
from equivocal.doubt.run_learning import follow_learning
from equivocal.doubt.scores import (
    Beliefs,
    RoleQuestions,
    ask_about_roles,
    compute_divergence,
    pool_networks,
    pool_particles,
)
from equivocal.doubt.usefulness import (
    count_heard,
    summarise_learning,
    tabulate_choices,
    tabulate_items,
)
from equivocal.network import TrainingSettings
from equivocal.paper.claims import judge_nearer_to_truth
from equivocal.paper.verdicts import MissingError
from equivocal.world import World, find_role_reversals
from lastlayer.errors import UserError
from lastlayer.files import UnreadableError
from tests.cli.commands import fails
from tests.faults.damage import flip

TINY = TrainingSettings(
    networks=2, sentences=400, epochs=2, steps=5, questions=64, hidden=10, gestalt=10
)
FEW = FrontierSettings(
    evidence=(1.0, "sentence"),
    other_variances=(),
    rates=(0.1,),
    num_steps=2,
    num_particles=8,
    sizes=(2,),
)


@pytest.fixture(scope="module")
def slips() -> World:
    return World.load("slips")


@pytest.fixture(scope="module")
def asked(slips: World) -> RoleQuestions:
    return ask_about_roles(slips, find_role_reversals(slips))


@pytest.fixture(scope="module")
def mapped(slips: World, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("frontier")
    return folder, map_frontier(slips, folder, training=TINY, settings=FEW)


def believe(p) -> Beliefs:
    p = np.clip(np.asarray(p, float), 1e-300, 1 - 1e-16)
    return Beliefs(np.log(p), np.log1p(-p))


def test_divergence_by_hand() -> None:
    t, p = np.array([[0.523, 0.477]]), np.array([[0.9, 0.2]])
    by_hand = [
        a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))
        for a, b in zip(t[0], p[0], strict=True)
    ]
    assert compute_divergence(believe(p), t) == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_exact_beliefs_have_divergence_zero(asked: RoleQuestions, slips: World) -> None:
    items = find_role_reversals(slips)
    assert np.abs(compute_divergence(believe(asked.truth), asked.truth)).max() < 1e-12
    last = (asked.place == 0) & (asked.condition == 1)
    reversals = asked.truth[last].reshape(-1, 2, 2)  # item, role, noun
    np.testing.assert_allclose(reversals.sum(axis=2), 1)  # one of the two nouns it must be
    np.testing.assert_allclose(reversals[:, 0], reversals[:, 1][:, ::-1])  # the other is patient
    dinner = next(i for i, item in enumerate(items) if "during dinner pizza" in str(item.reversal))
    assert reversals[dinner, 0, 1] == pytest.approx(items[dinner].literal)
    assert reversals[dinner, 0, 1] == pytest.approx(0.4768, abs=1e-4)


def test_beliefs_of_particles_and_networks_are_means() -> None:
    rng = np.random.default_rng(0)
    psi, theta = rng.normal(size=(5, 3)), rng.normal(size=(2, 7, 3))
    nouns = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])
    found = pool_particles(theta, psi, nouns)
    p = (1 / (1 + np.exp(-np.einsum("qd,kjd->qkj", psi, theta)))).mean(axis=-1)
    np.testing.assert_allclose(np.exp(found.log_yes), np.take_along_axis(p, nouns, 1))
    np.testing.assert_allclose(np.exp(found.log_no), 1 - np.take_along_axis(p, nouns, 1))
    both = pool_networks([believe([[0.1, 0.9]]), believe([[0.3, 0.5]])])
    np.testing.assert_allclose(np.exp(both.log_yes), [[0.2, 0.7]])


def test_the_table_has_its_columns_and_every_kind(mapped) -> None:
    folder, result = mapped
    table = result.tables["frontier"]
    first = ["kind", "setting", "network", "kl_reversal", "kl_congruent"]
    written = pd.read_csv(folder / "tables" / "frontier.csv")
    assert written.columns.tolist() == table.columns.tolist()
    assert written.columns[:5].tolist() == first
    rows = table.groupby("kind", sort=False).size().to_dict()
    assert rows == {
        "trained": 2,
        "paper's sampler": 4,
        "posterior": 4,
        "MC dropout": 2,
        "temperature": 10,
        "deep ensemble": 1,
        "ensemble of samplers": 2,
        "ensemble of posteriors": 2,
    }
    assert (table[["kl_reversal", "kl_congruent"]] > 0).all(axis=None)
    # the paper's sampler has its time τ beside its step: one setting for all networks
    steps = table[table["kind"] == "paper's sampler"]
    assert steps["setting"].nunique() == 2
    for setting, time in zip(steps["setting"], steps["time"], strict=True):
        assert time > 0
        assert setting.endswith(f", τ = {time:.2g}")
    assert table.loc[table["kind"] == "posterior", "time"].isna().all()
    sampled = result.tables["example"].query('kind == "paper\'s sampler"')["setting"]
    assert set(sampled) == {steps["setting"].iloc[1]}
    # the mean belief of an ensemble is never further away than its members are on average
    means = table[table["kind"] == "trained"]["kl_reversal"].mean()
    assert table.loc[table["kind"] == "deep ensemble", "kl_reversal"].item() <= means
    summary = result.tables["frontier_summary"]
    assert summary["on_frontier"].any()
    assert result.summary[0].startswith("Nearest to the truth on reversals")
    assert len(draw_frontier(summary).axes) == 1
    assert (folder / "figures" / "frontier.png").stat().st_size > 1000


def test_temperatures_and_one_half_are_baselines(mapped, asked: RoleQuestions) -> None:
    folder, result = mapped
    table = result.tables["frontier"].set_index(["kind", "setting", "network"])
    t = asked.truth[(asked.condition == 1) & (asked.place == 0)]
    half = (t * np.log(2 * t) + (1 - t) * np.log(2 * (1 - t))).mean()
    for network in "01":
        own = table.loc[("temperature", "½ everywhere", network)]
        assert own["kl_reversal"] == pytest.approx(half, rel=1e-12)
    trained = Answers.load(folder / "answers" / "trained" / "00.safetensors").beliefs
    odds = np.exp((trained.log_yes - trained.log_no) / 1.5)
    error = asked.average(compute_divergence(believe(odds / (1 + odds)), asked.truth), "reversal")
    own = table.loc[("temperature", "logits / 1.5", "0"), "kl_reversal"]
    assert own == pytest.approx(error[0], rel=1e-9)
    assert "temperature (logits / 1.2)" in result.summary[0]


def test_every_point_of_the_frontier_is_inside_the_figure_with_its_whiskers() -> None:
    results = Path(__file__).resolve().parents[4] / "benchmarks" / "results"
    summary = pd.read_csv(results / "frontier_summary.csv")
    (axes,) = draw_frontier(summary).axes
    (low, high), (floor, ceiling) = axes.get_xlim(), axes.get_ylim()
    best = summary[summary["on_frontier"]]
    assert best["kl_congruent"].min() < 0.0008  # 20 × b = 1, v = 10
    assert best["kl_congruent"].between(low, high).all()
    assert best["kl_reversal"].between(floor, ceiling).all()
    drawn = np.concatenate(
        [line.get_segments() for line in axes.collections if hasattr(line, "get_segments")]
    )
    other = summary[(summary["kind"] == "posterior") & (summary["prior_variance"] == 10)]
    for value in other["kl_reversal_low"]:
        assert np.isclose(drawn[:, 0, 1], value).any()


def test_errors_at_every_word_are_means_over_networks(mapped) -> None:
    folder, result = mapped
    table, words = result.tables["frontier"], result.tables["words"]
    own = words[words["kind"] == "trained"].set_index("words_left")
    trained = table[table["kind"] == "trained"]
    assert own.index.tolist() == [3, 2, 1, 0]  # a situation, a noun, a verb, a noun
    assert own.loc[0, "kl_reversal"] == pytest.approx(trained["kl_reversal"].mean())
    assert own.loc[2, "kl_congruent"] == pytest.approx(trained["kl_congruent_2_before"].mean())
    # before the nouns a sentence and its reversal are the same
    assert own.loc[3, "kl_reversal"] == pytest.approx(own.loc[3, "kl_congruent"])
    assert own.loc[0, "kl_reversal_low"] < own.loc[0, "kl_reversal"]
    for name in ("tables/words.csv", "figures/words.png"):
        assert (folder / name).exists()


def test_answers_are_reused_and_made_again_if_damaged(mapped, slips: World) -> None:
    folder, result = mapped
    files = sorted((folder / "answers").rglob("*.safetensors"))
    assert len(files) == 8  # four kinds, two networks
    before = {path: path.stat().st_mtime_ns for path in files}
    flip(files[0], 0.9)
    with pytest.warns(UserWarning, match="checksum mismatch"):
        again = map_frontier(slips, folder, training=TINY, settings=FEW)
    changed = [path for path in files[1:] if path.stat().st_mtime_ns != before[path]]
    assert not changed
    numbers = ["kl_reversal", "kl_congruent", "held_out", "bound"]
    pd.testing.assert_frame_equal(
        again.tables["frontier"][numbers], result.tables["frontier"][numbers]
    )


def test_files_without_answers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "00.safetensors"
    save_file({"log_yes": np.zeros((1, 2))}, path, metadata={"equivocal": '[["a", 1, 2]]'})
    with pytest.raises(UnreadableError, match="answers of a network"):
        Answers.load(path)


def test_a_world_without_true_reversals_is_refused(paper: World, slips: World, tmp_path) -> None:
    assert has_true_reversals(slips)
    assert not has_true_reversals(paper)
    with pytest.raises(UserError, match="no role reversal"):
        map_frontier(paper, tmp_path / "out")
    along = ("doubt", "--along", "sentences", "--world", "paper", "--out", tmp_path / "out")
    assert "no role reversal can be read in two ways in world 'paper'; use" in fails(*along)
    assert not (tmp_path / "out").exists()


def make_table() -> pd.DataFrame:
    """Three networks: b = 1/10 is best, the bound chooses b = 1, rare sentences the best b."""
    rows = []
    for network in range(3):
        shift = 0.01 * network
        for b, reversal, congruent in ((1.0, 0.3, 0.01), (0.1, 0.1, 0.02), (0.01, 0.09, 0.2)):
            rows.append(
                {
                    "kind": "posterior",
                    "setting": f"b = {b:g}",
                    "network": str(network),
                    "kl_reversal": reversal + shift * (1 + b),
                    "kl_congruent": congruent,
                    "value": b,
                    "prior_variance": 1.0,
                    "held_out": congruent,
                    "held_out_rare": reversal + congruent,
                    "bound": np.log(b),
                }
            )
        rows.append({"kind": "trained", "network": str(network), "kl_reversal": 0.2 + shift})
    table = pd.DataFrame(rows)
    return table.assign(kl_congruent=table["kl_congruent"].fillna(0.005))


def test_regret_is_the_distance_of_the_choice_from_the_best() -> None:
    choices = tabulate_choices(make_table()).set_index(["strength", "chosen_by"])
    rare = choices.loc[("b", "held-out rare sentences")]
    assert (rare["chosen"], rare["same"], rare["regret"]) == ("b = 0.1", 1.0, 0.0)
    bound = choices.loc[("b", "evidence bound")]
    assert (bound["chosen"], bound["best"]) == ("b = 1", "b = 0.1")
    # ½ (0.3 + 0.01 − 0.1 − 0.02), and half of 0.9 × 0.01 per network more
    assert bound["regret"] == pytest.approx(0.095 + 0.0045)
    assert bound["kl_congruent_more"] == pytest.approx(-0.01)
    assert "steps" not in choices.index.get_level_values(0)


def test_the_claim_is_judged_by_paired_differences() -> None:
    table = make_table()
    converged = judge_nearer_to_truth(table, "converged")
    assert converged.verdict == "not replicated"
    closer = table.assign(kl_reversal=table["kl_reversal"].where(table["value"] != 1, 0.05))
    closer.loc[closer["value"] == 1, "kl_reversal"] += [0.001, 0.0, 0.002]
    found = judge_nearer_to_truth(closer, "converged")
    assert found.verdict == "replicated"
    assert "−" not in found.text.split("MLE:")[1]
    assert "-0.159" in found.text
    with pytest.raises(MissingError, match="paper's sampler"):
        judge_nearer_to_truth(table, "paper")
    with pytest.raises(MissingError, match="not asked"):
        judge_nearer_to_truth(None)


def test_windows_and_pareto() -> None:
    assert {frozenset(window) for window in list_windows([0, 1, 2], 5)} == {frozenset({0, 1, 2})}
    tied = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 0.5], [2.0, 2.0]])
    assert find_pareto(tied).tolist() == [True, True, True, False]


def test_reversals_in_a_corpus_are_counted(slips: World) -> None:
    items = find_role_reversals(slips)
    corpus = slips.sample(3_000, seed=1)
    counts = count_heard(corpus, items)
    texts = [slips.parse(text).tokens for text in corpus.texts]
    first = items[int(np.argmax(counts))].reversal.tokens
    assert counts.max() == sum(tokens[: len(first)] == first for tokens in texts) > 1
    assert (counts == 0).any()


def test_gains_are_estimated_over_networks_and_items(asked: RoleQuestions, slips: World) -> None:
    """The trained networks are off by a known factor; the other kind is the truth itself."""
    items = find_role_reversals(slips)
    rng = np.random.default_rng(0)

    def answer(p) -> Answers:
        nothing = np.zeros(1)
        beliefs = believe(p[None])
        return Answers(
            (Setting("b = 1, v = 1", 1.0, 1.0),),
            beliefs,
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
        )

    off = [np.clip(asked.truth * f, 0.01, 0.99) for f in rng.uniform(0.4, 0.6, 3)]
    answers = {"trained": [answer(p) for p in off], "posterior": [answer(asked.truth)] * 3}
    counts = np.zeros(len(items))
    parts = [
        tabulate_items(asked, answers, items, counts, world="slips", corpus=0).assign(sentences=n)
        for n in (300, 1000)
    ]
    table = summarise_learning(pd.concat(parts, ignore_index=True), "sentences")
    rows = table[table["sentences"] == 300].set_index("kind")
    assert rows.loc["posterior, b = 1", "kl_reversal"] < 1e-9
    gain = rows.loc["posterior, b = 1"]
    assert gain["gain"] == pytest.approx(rows.loc["trained", "kl_reversal"])
    assert 0 < gain["gain_low"] < gain["gain"] < gain["gain_high"]
    assert len(draw_learning(table, "sentences").axes) == 3


def test_gains_that_differ_between_corpora_have_wide_intervals() -> None:
    """Four corpora with gains of −0.1 to 0.2, nearly equal for all networks and items of each."""
    rng = np.random.default_rng(0)
    levels = {"corpus": range(4), "network": map(str, range(10)), "item": list("abcdef")}
    grid = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    grid = grid.assign(world="slips", sentences=300, kl_congruent=0.01)
    gain = np.array([-0.1, 0.0, 0.1, 0.2])[grid["corpus"]]
    noise = 0.01 * rng.normal(size=(2, len(grid)))
    trained = grid.assign(kind="trained", kl_reversal=1 + noise[0])
    own = grid.assign(kind="posterior, b = 1", kl_reversal=1 - gain + noise[1])
    mean = own.groupby(["corpus", "item"])[["kl_reversal"]].mean().reset_index()
    pooled = mean.assign(
        kind="deep ensemble, 10 networks",
        network="all",
        world="slips",
        sentences=300,
        kl_congruent=0.01,
    )
    for several in ([0, 1, 2, 3], [3]):
        parts = [part[part["corpus"].isin(several)] for part in (trained, own, pooled)]
        table = summarise_learning(pd.concat(parts, ignore_index=True), "sentences")
        gains = table[table["kind"] != "trained"]
        assert len(gains) == 2
        np.testing.assert_allclose(gains["gain"], gain[-1] if several == [3] else 0.05, atol=0.01)
        width = gains["gain_high"] - gains["gain_low"]
        # four corpora: 2 t₃ sd / √4 = 0.41; of one corpus nothing of this shows
        np.testing.assert_allclose(width, 0.01 if several == [3] else 0.41, atol=0.02)
        assert (gains["corpora"] == len(several)).all()


@pytest.mark.slow
def test_several_corpora_are_followed(slips: World, tmp_path: Path) -> None:
    result = follow_learning("sentences", slips, tmp_path, quick=True, corpora=2)
    items = result.tables["learning_items"]
    assert set(items["corpus"]) == {0, 1}
    own = items[items["kind"] == "trained"].groupby("corpus")["count"].sum()
    assert own[0] != own[1]  # other sentences were heard
    assert {path.name for path in tmp_path.glob("sentences_*")} == {
        "sentences_300",
        "sentences_300_corpus_1",
        "sentences_1000",
        "sentences_1000_corpus_1",
    }
    assert (result.tables["learning"]["corpora"] == 2).all()
    assert "(2 corpora)" in result.summary[0]
    with pytest.raises(UserError, match="corpora must be 1 or more"):
        follow_learning("truth", slips, tmp_path / "other", corpora=0)
    command = ("doubt", "--world", "slips", "--corpora", "2", "--out", tmp_path / "other")
    assert "--corpora is for --along" in fails(*command)


def test_settings_that_do_not_affect_answers_do_not_recompute_them(mapped, slips: World) -> None:
    folder, _ = mapped
    files = {path: path.stat().st_mtime_ns for path in (folder / "answers").rglob("*.safetensors")}
    more = replace(FEW, evidence=(1.0,), sizes=())
    map_frontier(slips, folder, training=TINY, settings=more)
    changed = {path.parent.name for path, time in files.items() if path.stat().st_mtime_ns != time}
    assert changed == {"posterior"}
