"""`compare_uncertainty`: its tables, what is reused, and the command."""

import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.doubt.answers import Answers
from equivocal.doubt.figures import draw_frontier, draw_kinds
from equivocal.doubt.frontier import describe_frontier, summarise_frontier
from equivocal.doubt.kinds import KINDS, KindSettings
from equivocal.doubt.run import UncertaintyResult, compare_uncertainty
from equivocal.network import TrainingSettings
from equivocal.network.runs import QUICK
from equivocal.truth import ask_about_reversals
from equivocal.world import World, read_example
from lastlayer.errors import UserError
from tests.faults.damage import flip

TINY = TrainingSettings(
    networks=2, sentences=400, epochs=2, steps=5, questions=64, hidden=10, gestalt=10
)
FEW = KindSettings(
    evidence=(1.0, "sentence"),
    other_variances=(),
    dropout=(0.1,),
    smoothing=(0.02,),
    word_noise=(),
    divisors=(1.5,),
    no_data=(0.1,),
    num_steps=2,
    num_particles=8,
    sizes=(2,),
)
ERRORS = ["kl_reversal", "kl_congruent"]
Mapped = tuple[Path, UncertaintyResult]


@pytest.fixture(scope="module")
def slips() -> World:
    return World.load("slips")


@pytest.fixture(scope="module")
def mapped(slips: World, tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    folder = tmp_path_factory.mktemp("frontier")
    return folder, compare_uncertainty(slips, folder, training=TINY, settings=FEW)


def test_the_table_has_its_columns_and_every_kind(mapped: Mapped) -> None:
    folder, result = mapped
    table = result.tables["frontier"]
    written = pd.read_csv(folder / "tables" / "frontier.csv")
    assert written.columns.tolist() == table.columns.tolist()
    assert written.columns[:6].tolist() == ["kind", "setting", "network", "corpus", *ERRORS]
    assert table.groupby("kind", sort=False).size().to_dict() == {
        "trained": 2,
        "paper's sampler": 4,
        "posterior": 4,
        "MC dropout": 2,
        "temperature": 6,
        "prior": 2,
        "label smoothing": 2,
        "half": 1,
        "constant": 1,
        "learner-counts": 1,
        "learner-pooled": 1,
        "learner-form": 1,
        "deep ensemble": 1,
        "ensemble of samplers": 2,
        "ensemble of posteriors": 2,
    }
    assert (table[ERRORS] > 0).all(axis=None)
    # the paper's sampler has its time τ beside its step: one setting for all networks
    steps = table[table["kind"] == "paper's sampler"]
    assert steps["setting"].nunique() == 2
    for setting, time in zip(steps["setting"], steps["time"], strict=True):
        assert setting.endswith(f", τ = {time:.2g}")
    assert table.loc[table["kind"] == "posterior", "time"].isna().all()
    # the mean belief of an ensemble is never further away than its members are on average
    means = table[table["kind"] == "trained"]["kl_reversal"].mean()
    assert table.loc[table["kind"] == "deep ensemble", "kl_reversal"].item() <= means
    summary = result.tables["summary"]
    assert summary["on_frontier"].any()
    assert result.summary[0].startswith("On reversals a trained network is ")
    assert len(draw_frontier(summary).axes) == 1
    for name in ("frontier", "ladder"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 1000
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert report.count("<img") == 2
    assert "What no other setting beats" in report
    assert "Quick run" not in report


def test_temperatures_and_one_half_are_baselines(mapped: Mapped, slips: World) -> None:
    folder, result = mapped
    table = result.tables["frontier"].set_index(["kind", "setting", "network"])
    asked = ask_about_reversals(slips)
    t = asked.truth[asked.condition == 1]
    half = (t * np.log(2 * t) + (1 - t) * np.log(2 * (1 - t))).mean()
    assert table.loc[("half", "½ everywhere", "none"), "kl_reversal"] == pytest.approx(half)
    trained = Answers.load(folder / "answers" / "trained" / "00.safetensors").beliefs
    odds = np.exp((trained.log_yes - trained.log_no) / 1.5)
    p = np.take_along_axis(odds[0] / (1 + odds[0]), asked.nouns, axis=1)[asked.condition == 1]
    error = (t * np.log(t / p) + (1 - t) * np.log((1 - t) / (1 - p))).mean()
    own = table.loc[("temperature", "logits / 1.5", "0"), "kl_reversal"]
    assert own == pytest.approx(error, rel=1e-5)
    for network in "01":
        both = table.xs(network, level="network").loc["temperature", ERRORS].sum(axis=1)
        assert both["oracle"] <= both.min() + 1e-6


def test_skill_is_measured_from_the_constant_and_the_counting_learner(mapped: Mapped) -> None:
    table = mapped[1].tables["frontier"].drop_duplicates("kind").set_index("kind")
    assert table.loc["constant", "skill"] == 0
    assert table.loc["learner-counts", ["skill_counts", "spread_ratio"]].tolist() == pytest.approx(
        [0, 1]
    )
    assert table.loc["learner-counts", "spread_rank"] == pytest.approx(1)
    constant, error = (table.loc[kind, "kl_reversal"] for kind in ("constant", "trained"))
    assert table.loc["trained", "skill"] == pytest.approx(1 - error / constant)
    assert table.loc["learner-form", "kl_reversal"] < table.loc["learner-counts", "kl_reversal"]
    summary = mapped[1].tables["summary"].set_index("kind")
    assert not summary.loc[["learner-form", "learner-counts", "constant"], "on_frontier"].any()


def test_answers_are_reused_and_made_again_if_damaged(mapped: Mapped, slips: World) -> None:
    folder, result = mapped
    files = sorted((folder / "answers").rglob("*.safetensors"))
    assert len(files) == 19  # seven kinds of two networks, five without
    before = {path: path.stat().st_mtime_ns for path in files}
    flip(files[0], 0.9)
    with pytest.warns(UserWarning, match="checksum mismatch"):
        again = compare_uncertainty(slips, folder, training=TINY, settings=FEW)
    assert not [path for path in files[1:] if path.stat().st_mtime_ns != before[path]]
    pd.testing.assert_frame_equal(
        again.tables["frontier"][ERRORS], result.tables["frontier"][ERRORS]
    )


def test_settings_that_do_not_affect_answers_do_not_recompute_them(
    mapped: Mapped, slips: World
) -> None:
    folder, _ = mapped
    files = {path: path.stat().st_mtime_ns for path in (folder / "answers").rglob("*.safetensors")}
    more = replace(FEW, evidence=(1.0,), sizes=())
    compare_uncertainty(slips, folder, training=TINY, settings=more)
    changed = {path.parent.name for path, time in files.items() if path.stat().st_mtime_ns != time}
    assert changed == {"posterior"}


def test_every_setting_of_a_kind_is_in_its_key() -> None:
    known = asdict(KindSettings()).keys() | {"strengths"}
    free = {"sizes"}  # pooled afterwards
    used = {name for kind in KINDS.values() for name in kind.depends}
    strengths = {"evidence", "other_variances", "other_evidence"}
    assert used <= known
    assert used | strengths | free == known


def make_table(networks: int = 4) -> pd.DataFrame:
    """Two kinds and an ensemble in a world where everything is asked."""
    rng, rows = np.random.default_rng(2), []
    for kind, level in {"trained": 0.5, "posterior": 0.3, "deep ensemble": 0.2}.items():
        deep = kind == "deep ensemble"
        names = ["all", *(f"all but {i}" for i in range(networks))] if deep else range(networks)
        for name in map(str, names):
            values = level + (0 if name == "all" else rng.normal(0, 0.01))
            scores = dict.fromkeys(("nll_excess", "calibration_error", "auroc"), values)
            scores |= {"epistemic_share": 0.0 if kind == "trained" else 0.1, "auroc_entropy": 0.9}
            head = {"kind": kind, "setting": "as it is", "network": name, "corpus": 0}
            costs = {"seconds": 9.0 * level, "megabytes": 1.0}
            none = dict.fromkeys(("value", "prior_variance", "time"), np.nan)
            rows.append(head | scores | costs | none | {"converged": None, "message": ""})
    return pd.DataFrame(rows)


def test_intervals_are_over_networks_or_by_the_jackknife() -> None:
    table = make_table()
    summary = summarise_frontier(table).set_index("kind")
    own = table[table["kind"] == "posterior"]["nll_excess"]
    half = 3.182 * own.std() / 2  # t at 0.975 with three degrees of freedom
    assert summary.loc["posterior", "nll_excess_high"] == pytest.approx(own.mean() + half, rel=1e-3)
    deep = table[table["kind"] == "deep ensemble"]
    without = deep[deep["network"] != "all"]["auroc"]
    jackknife = 3.182 * np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    assert summary.loc["deep ensemble", "auroc"] == pytest.approx(0.2)
    assert summary.loc["deep ensemble", "auroc_low"] == pytest.approx(0.2 - jackknife, rel=1e-3)
    less = summary.loc["posterior", "less_than_trained"]
    trained = table[table["kind"] == "trained"]["nll_excess"]
    assert less == pytest.approx(trained.mean() - own.mean())
    assert np.isnan(summary.loc["deep ensemble", "less_than_trained"])
    assert len(draw_kinds(table.assign(seconds=1.0), summary.reset_index()).axes) == 4


def test_with_several_corpora_intervals_are_over_their_means() -> None:
    parts = [make_table().assign(corpus=number) for number in range(3)]
    for number, part in enumerate(parts):
        part.loc[part["kind"] == "trained", "nll_excess"] += 0.1 * number
    row = summarise_frontier(pd.concat(parts, ignore_index=True)).set_index("kind").loc["trained"]
    half = row["nll_excess_high"] - row["nll_excess"]
    assert half == pytest.approx(4.303 * 0.1 / np.sqrt(3), rel=1e-3)


def test_the_summary_names_the_closest_kind_and_the_best_detector() -> None:
    said = describe_frontier(summarise_frontier(make_table()))
    assert said.startswith("Closest to the truth: deep ensemble (as it is), 0.2 nats away, for ")
    assert "; trained, 0." in said
    assert "by the epistemic uncertainty of posterior" in said  # the trained network has none


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": "papers"}, "did you mean 'paper'"),
        ({"layers": ["al"]}, "'al': did you mean 'all'"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
        ({"world": "victims.toml"}, "has no role patient"),
        ({"corpora": 0}, "corpora must be 1 or more"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("victims.toml").write_text(read_example().replace("patient", "victim"))
    with pytest.raises(UserError, match=message):
        compare_uncertainty(**arguments, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_several_corpora_have_their_own_networks(slips: World, tmp_path: Path) -> None:
    result = compare_uncertainty(slips, tmp_path, training=TINY, settings=FEW, corpora=2)
    table = result.tables["frontier"]
    trained = table[table["kind"] == "trained"].groupby("corpus")["kl_reversal"].mean()
    assert trained[0] != trained[1]
    assert {path.name for path in tmp_path.glob("corpus_*")} == {"corpus_0", "corpus_1"}


@pytest.mark.slow
def test_the_function_writes_what_it_returns_and_the_command_finds_it(tmp_path: Path) -> None:
    """In a world where no reversal is possible, so that everything is asked."""
    (tmp_path / "garden.toml").write_text(read_example())
    result = compare_uncertainty(tmp_path / "garden.toml", tmp_path / "out", quick=True)
    assert list(result.tables) == ["frontier", "summary"]
    for name, table in result.tables.items():
        written = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv")
        assert written.columns.tolist() == table.columns.tolist()
    table = result.tables["frontier"].set_index("kind")
    assert (table.loc["trained", "epistemic_share"] < 1e-5).all()
    assert (table.loc["posterior", "epistemic_share"] > 1e-4).all()
    assert (tmp_path / "out" / "figures" / "kinds.svg").stat().st_size > 1000
    made_of = tomllib.loads((tmp_path / "out" / "doubt.toml").read_text())
    assert made_of["answer"] == result.summary[0]
    assert made_of["fingerprint"] == World.load(tmp_path / "garden.toml").fingerprint
    assert made_of["training"] == asdict(TrainingSettings(**QUICK))
    command = [sys.executable, "-m", "equivocal", "doubt", "--quick", "--world", "garden.toml"]
    done = subprocess.run(
        [*command, "--out", "out"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "holds this run already" in done.stderr
    assert result.summary[0] in done.stdout
    assert done.stdout.endswith("do not report them.\n")
