"""`equivocal suites` as a user runs it, and what its figures show."""

import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from importlib import metadata
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

from equivocal.measuring.command import run
from equivocal.measuring.figures import draw_overview, draw_suite
from equivocal.measuring.findings import summarise_findings, tabulate_findings, tabulate_networks
from equivocal.measuring.run import COMPARED, SuitesResult, describe_suites, measure
from equivocal.measuring.suite import PARADIGMS, Suite, load_suite
from equivocal.network import TrainingSettings
from equivocal.statistics.summaries import append_means
from equivocal.store.folders import announce_overwrite
from lastlayer.errors import UserError
from tests.measuring.test_findings import make_words

TRAINING = TrainingSettings(networks=2, epochs=10, sentences=1_000)


def suites(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "equivocal", "suites", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


@pytest.mark.slow
def test_all_measures_are_computed_once_and_then_reused(chase_file: Path, tmp_path: Path) -> None:
    arguments = ("run", "--suite", str(chase_file), "--quick", "--out", "out")
    done = suites(*arguments, "--measure", "all", "--by-role", "--beliefs", "trained", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "epistemic_share (exploratory): " in done.stdout
    assert "chase: odd > likely – Ferreira (2003)\n" in done.stdout
    assert done.stdout.count("no ratio, since the measure can be negative; 2018: not pub") == 1
    out = tmp_path / "out"
    words = pd.read_csv(out / "tables" / "words.csv")
    assert words.groupby("measure").size().nunique() == 1
    assert words[words["measure"] == "epistemic_share"]["low"].notna().all()
    assert words[words["measure"] == "bayesian_surprise"]["low"].isna().all()  # trained beliefs
    roles = [name for name in words["measure"].unique() if name.startswith("bayesian_surprise_")]
    assert len(roles) == len(load_suite(chase_file).world.roles)
    findings = pd.read_csv(out / "tables" / "findings.csv")
    assert len(findings) == words["measure"].nunique() - len(roles) == 4
    summary = pd.read_csv(out / "tables" / "words_summary.csv")
    assert len(summary) * 2 == len(words)  # two networks
    for name in ("chase", "overview"):
        assert (out / "figures" / f"{name}.svg").stat().st_size > 1000
    made_of = tomllib.loads((out / "suites.toml").read_text())
    assert (made_of["networks"], made_of["seed"]) == (2, 0)
    assert made_of["posterior"]["particles"] == 64
    assert made_of["posterior"]["prior_variance"] == 1
    assert made_of["versions"]["jax"] == metadata.version("jax")
    (posteriors,) = out.glob("posteriors/*")
    (posteriors / ".00.0a1b2c3d.tmp").write_bytes(b"")  # by a run that was killed
    again = suites(*arguments, "--measure", "bayesian_surprise", cwd=tmp_path)  # of posteriors
    assert "holds this run already" in again.stderr
    assert "overwriting results in out that differ in measures, beliefs" in again.stderr
    words = pd.read_csv(out / "tables" / "words.csv")
    assert words[words["position"] > 1]["low"].notna().all()
    assert len(list(posteriors.iterdir())) == 2  # found again, and nothing else left


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["reversal"]}, r"did you mean 'reversal_anomaly'\?"),
        ({"measures": ["n400"]}, "unknown measure 'n400'"),
        ({"names": ["pasive"]}, r"did you mean 'passive'\?"),
        ({"names": ["a/x.toml"]}, "cannot read a/x.toml"),
        ({"names": ["passive"], "networks": 2, "curve_networks": 3}, "3 is more than the 2"),
        ({"by_role": True}, "--by-role.* needs .*add --measure bayesian_surprise"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        run(**arguments, folder=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_two_suites_of_one_name_are_refused(chase_file: Path, tmp_path: Path) -> None:
    for file in chase_file.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match="the same name"):
        run(names=[str(chase_file), str(tmp_path / "chase.toml")], folder=tmp_path / "out")


def settings(chase: Suite, **changes: object) -> dict:
    """The settings of a quick run with two measures."""
    measures = ["semantic_update", "bayesian_surprise"]
    made = describe_suites([chase], measures, "trained", TRAINING, by_role=False)
    return made | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"measures": ["semantic_update"], "beliefs": "posterior"},
            "that differ in measures, beliefs",
        ),
        ({"training": asdict(replace(TRAINING, seed=1))}, "that differ in training.seed\n"),
        # the same run, whatever its versions, time and order
        ({"measures": ["bayesian_surprise", "semantic_update"], "seconds": 3.5}, ""),
        ({"versions": {"jax": "0.1"}, "version": "0.0"}, ""),
    ],
)
def test_results_of_another_run_are_not_replaced_silently(
    changes: dict, said: str, chase: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "suites.toml"
    announce_overwrite(path, settings(chase), COMPARED)  # nothing there
    path.write_text(tomli_w.dumps(settings(chase, **changes)))
    announce_overwrite(path, settings(chase), COMPARED)
    told = capsys.readouterr().err
    assert said in told if said else not told
    path.write_text("suites = [")
    announce_overwrite(path, settings(chase), COMPARED)
    assert "cannot be read; the results in" in capsys.readouterr().err


class FullDisk(StringIO):
    """A standard output that cannot be written to."""

    def write(self, _: str) -> int:
        """Fail."""
        raise OSError("no space left on device")


@pytest.fixture(scope="module")
def finished(chase_file: Path, tmp_path_factory: pytest.TempPathFactory) -> SuitesResult:
    """A quick run, written to the folder that its `settings` name."""
    folder = tmp_path_factory.mktemp("finished")
    result = measure([chase_file], folder, quick=True)
    result.settings["folder"] = folder
    return result


def copy(finished: SuitesResult, folder: Path) -> None:
    shutil.copytree(finished.settings["folder"], folder, dirs_exist_ok=True)


def test_a_run_returns_what_it_writes(finished: SuitesResult) -> None:
    assert list(finished.tables) == ["words", "words_summary", "networks", "conditions", "findings"]
    folder = finished.settings["folder"]
    for name, table in finished.tables.items():
        pd.testing.assert_frame_equal(
            pd.read_csv(folder / "tables" / f"{name}.csv", keep_default_na=True),
            table.replace("", np.nan),
            check_dtype=False,
            rtol=1e-5,
        )
    assert set(finished.draw()) == {"overview", "chase"}
    assert {path.stem for path in (folder / "figures").iterdir()} == {"overview", "chase"}
    made_of = tomllib.loads((folder / "suites.toml").read_text())
    assert made_of == finished.settings["suites"]
    assert finished.summary[0].startswith("semantic_update: ")


def test_a_run_is_whole_before_its_results_are_printed(
    chase_file: Path,
    finished: SuitesResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments: dict = {"names": [str(chase_file)], "quick": True, "folder": tmp_path}
    copy(finished, tmp_path)
    (tmp_path / "suites.toml").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", FullDisk())
        with pytest.raises(OSError, match="no space left"):
            run(**arguments)
    assert (tmp_path / "suites.toml").exists()
    capsys.readouterr()
    run(**arguments, measures=["bayesian_surprise"], beliefs="trained")
    printed = capsys.readouterr()
    assert printed.out.endswith("do not report them.\n")
    assert "that differ in measures" in printed.err


def test_results_that_are_kept_are_not_reported_as_replaced(
    chase_file: Path,
    finished: SuitesResult,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Networks with another seed are refused before anything is replaced."""
    copy(finished, tmp_path)
    before = (tmp_path / "suites.toml").read_bytes()
    with pytest.raises(UserError, match="seed"):
        run(names=[str(chase_file)], quick=True, seed=3, folder=tmp_path)
    assert "replaced" not in capsys.readouterr().err
    assert (tmp_path / "suites.toml").read_bytes() == before


def test_beliefs_are_trained_or_posterior(chase_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'exact'"):
        measure([chase_file], tmp_path / "out", beliefs="exact")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_no_record_and_resumes(
    chase_file: Path, finished: SuitesResult, tmp_path: Path
) -> None:
    """A file in the place of the folder of figures stops it between tables and `suites.toml`."""
    arguments: dict = {"names": [str(chase_file)], "quick": True, "folder": tmp_path}
    copy(finished, tmp_path)
    first = tomllib.loads((tmp_path / "suites.toml").read_text())
    assert first["seconds"] > 0
    tables = {path.name: path.read_text() for path in (tmp_path / "tables").iterdir()}
    assert len(tables) == 5
    shutil.rmtree(tmp_path / "figures")
    (tmp_path / "figures").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        run(**arguments)
    assert not (tmp_path / "suites.toml").exists()
    (tmp_path / "figures").unlink()
    (tmp_path / "figures").mkdir()
    for name in ("cloze_probability.png", "mine.png"):  # by a run of other suites; the user's own
        (tmp_path / "figures" / name).write_bytes(b"")
    run(**arguments)
    assert {path.name: path.read_text() for path in (tmp_path / "tables").iterdir()} == tables
    figures = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert figures == {"chase.png", "overview.png", "mine.png"}
    again = tomllib.loads((tmp_path / "suites.toml").read_text())
    assert again | {"seconds": 0} == first | {"seconds": 0}


@pytest.mark.slow
def test_paradigms_and_constructions_run_together(chase_file: Path, tmp_path: Path) -> None:
    result = measure([chase_file, "attachment"], tmp_path, quick=True)
    names = {"attachment_readings", "attachment_shares", "attachment_beliefs"}
    assert names | {"words", "findings"} <= result.tables.keys()
    assert result.draw().keys() == {"overview", "chase", "attachment"}
    for name in ("suites", "constructions"):
        assert (tmp_path / f"{name}.toml").exists()
    assert "Attachment of a prepositional phrase" in result.summary


def two_measures() -> tuple[pd.DataFrame, list]:
    """Made-up words of all nine suites; entropies fall where updates rise."""
    rng, parts = np.random.default_rng(0), []
    loaded = [load_suite(name) for name in PARADIGMS]
    for suite in loaded:
        shape = (3, len(suite.conditions), len(suite.items))
        values = 2 + np.arange(shape[1])[:, None] + rng.normal(0, 0.1, shape)
        parts.append(make_words(suite, values))
        parts.append(make_words(suite, -values, "entropy_reduction"))
    return pd.concat(parts), loaded


def test_the_summary_names_source_and_published_direction_and_why_there_is_no_ratio() -> None:
    words, loaded = two_measures()
    printed = list(summarise_findings(tabulate_findings(words, loaded)))
    at = printed.index(
        "held            reversal_anomaly: reversal > congruent – "
        "Rabovsky, Hansen & McClelland (2018)"
    )
    assert printed[at + 2].endswith("; 2018: 1.14 (0.975 to 1.34), as predicted")
    assert re.search(r"^ +ratio 1\.5 \(1\.\d+ to 1\.\d+\); ", printed[at + 2])
    reason = " " * 16 + "no ratio, since the measure can be negative; 2018: not published"
    assert printed.count(reason) == 15


def test_a_suites_figure_shows_every_network_their_mean_and_2018() -> None:
    words, loaded = two_measures()
    suite = loaded[-1]
    means = tabulate_networks(words, [suite])
    means = append_means(means, "suite", "measure", "published", "condition")
    figure = draw_suite(means, list(suite.conditions), suite.title)
    ours, published, entropies = figure.axes
    assert [axes.get_title() for axes in figure.axes] == [
        "3 networks",
        "2018, 10 networks",
        "3 networks",
    ]
    assert len(ours.lines) == 4
    assert ours.lines[3].get_color() != published.lines[-1].get_color()
    np.testing.assert_allclose(ours.lines[3].get_ydata(), [2, 3, 4], atol=0.1)
    np.testing.assert_allclose(published.lines[-1].get_ydata(), [1.335, 1.534, 2.735], atol=1e-3)
    assert [t.get_text() for t in ours.get_xticklabels()] == list(suite.conditions)
    assert ours.get_ylabel() == "semantic update"
    assert entropies.get_ylabel() == "entropy reduction (nats)\n(exploratory)"
    assert ours.get_ylim()[0] == 0
    assert entropies.get_ylim()[0] < 0


def test_the_overview_has_a_row_for_each_finding_and_a_mark_for_each_verdict() -> None:
    words, loaded = two_measures()
    findings = tabulate_findings(words, loaded)
    ratios, verdicts = draw_overview(findings, {s.name: s.title for s in loaded}).axes
    labels = [t.get_text() for t in ratios.get_yticklabels()]
    assert len(labels) == findings[["suite", "contrast"]].drop_duplicates().shape[0] == 15
    assert labels[0] == "Semantic incongruity:  incongruent > congruent"
    drawn = {line.get_label(): len(line.get_xdata()) for line in verdicts.lines}
    assert drawn == findings["verdict"].value_counts().to_dict()
    by_label = {line.get_label(): line for line in ratios.lines}
    shown = findings[findings["measure"] == "semantic_update"]
    np.testing.assert_allclose(by_label["2018"].get_xdata(), shown["published_ratio"])
    np.testing.assert_allclose(by_label["these networks"].get_xdata(), shown["ratio"])
    assert [t.get_text() for t in verdicts.get_xticklabels()] == [
        "semantic\nupdate",
        "entropy\nreduction\n(exploratory)",
    ]
    assert "exploratory" not in ratios.get_xlabel()
    others = findings[findings["measure"] == "entropy_reduction"]
    assert "(exploratory)" in draw_overview(others, {}).axes[0].get_xlabel()


def test_runs_are_compared_with_each_other_and_with_2018(tmp_path: Path) -> None:
    """One run whose intervals hold the published ratios, one with none and an effect reversed."""
    from equivocal.measuring.signals import compare_suites

    one = load_suite("reversal_anomaly")
    shape = (3, len(one.conditions), len(one.items))
    values = np.random.default_rng(0).uniform(1, 2, shape)
    published = tabulate_findings(make_words(one, values), [one])
    published["effect"] = 1.0
    published = published.assign(
        ratio_low=published["published_ratio"] * 0.9, ratio_high=published["published_ratio"] * 1.1
    )
    other = published.assign(
        ratio_low=published["ratio_high"], ratio_high=published["ratio_high"] * 2
    )
    other.loc[0, "effect"] = -1.0
    for name, findings in (("fast", published), ("sg2018", other)):
        (tmp_path / name / "tables").mkdir(parents=True)
        findings.to_csv(tmp_path / name / "tables" / "findings.csv", index=False)
        training = {"training": {"recipe": name}}
        (tmp_path / name / "suites.toml").write_text(tomli_w.dumps(training))
    result = compare_suites([tmp_path / "fast", tmp_path / "sg2018"], tmp_path / "both")
    total = int(published["published_ratio"].notna().sum())
    first, second = result.summary
    assert f"fast (fast): {total} of {total} published directions" in first
    assert f"{total} of {total} published ratios lie inside" in first
    assert f"sg2018 (sg2018): {total - 1} of {total} published" in second
    assert f"0 of {total} published ratios lie inside" in second
    assert (tmp_path / "both" / "figures" / "compared.svg").stat().st_size > 1000
    with pytest.raises(UserError, match="the same name and recipe"):
        compare_suites([tmp_path / "fast", tmp_path / "fast"], tmp_path / "both")
    with pytest.raises(UserError, match="holds no finished run of suites"):
        compare_suites([tmp_path / "none"], tmp_path / "both")
