"""A whole small study: steps are done once, resumed after a loss, and repeated where needed."""

import re
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from benchmarks.same_results import find_differences
from scipy import stats

from equivocal.beliefs import collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.paper.activations import trace_effect, vary_sampler
from equivocal.paper.claims import collect_evidence
from equivocal.paper.report import StudyResult
from equivocal.paper.run import announce_time, infer, run_study
from equivocal.paper.settings import load_study
from equivocal.paper.study import Study, prepare
from equivocal.store import read_dataset
from equivocal.store.folders import has_run
from equivocal.world import read_example
from lastlayer import Posterior
from lastlayer.errors import UserError
from tests.faults.damage import cut, flip

STUDY = """
name = "garden"
world = "garden.toml"
[training]
networks = 2
sentences = 400
epochs = 30
steps = 20
questions = 64
learning_rate = 0.02
hidden = 20
gestalt = 20
[stimuli]
file = "garden.csv"
probes = ["agent", "patient"]
[inference]
prior_variances = [0.1, 1.0]
[inference.samplers.paper]
method = "dropout-deterministic"
num_particles = 10
num_steps = 5
[inference.samplers.converged]
method = "exact-flow"
num_particles = 2
[path]
num_steps = 6
networks = 1
[nuts]
networks = 0
"""
STIMULI = """condition,item,sentence,critical_word,tracked_units
congruent,cat,"the dog chases the cat",chases,agent=dog; patient=cat
congruent,bone,"the girl finds the bone",finds,agent=girl; patient=bone
reversal,cat,"the cat chases the dog",chases,agent=cat; patient=dog
reversal,bone,"the bone finds the girl",finds,agent=bone; patient=girl
"""


def made(folder: Path, run: Run, **changes: object) -> Study:
    """Prepare a study in a folder whose networks are trained already."""
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "study.toml").write_text(STUDY)
    (source / "garden.csv").write_text(STIMULI)
    (source / "garden.toml").write_text(read_example())
    study = prepare(load_study(source / "study.toml", changes), folder / "out")
    if not has_run(folder / "out"):
        run.save(folder / "out")
    return study


@pytest.fixture(scope="module")
def finished(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    study = made(tmp_path_factory.mktemp("study"), small_run)
    return run_study(study.settings, study.folder)


def repeat(finished: StudyResult, folder: Path, **changes: object) -> StudyResult:
    """Run the study again in a copy of its folder."""
    shutil.copytree(finished.folder, folder)
    return run_study(finished.study.settings, folder, changes=changes)


def test_activations_are_those_of_network_and_posterior(finished: StudyResult) -> None:
    dataset = finished.beliefs.answers
    sizes = {"sampler": 2, "prior": 2, "network": 2, "condition": 2, "item": 2, "position": 3}
    sizes |= {"probe": 2, "unit": 32, "role": 2, "non_relevant": 4}
    assert dict(dataset.sizes) == sizes
    tracked = dataset["tracked"].sel(condition="reversal", item="cat")
    pairs = dict(zip(dataset["role"].values, tracked.values, strict=True))
    assert pairs == {"agent": "cat", "patient": "dog"}
    assert list(dataset["non_relevant"].values) == ["dog", "cat", "girl", "bone"]
    network = finished.run.networks[1]
    text = "the cat chases the dog"
    heard = network.comprehend(text, ["agent", "patient"])
    one = {"condition": "reversal", "item": "cat"}
    np.testing.assert_allclose(dataset["mle"].sel(network=1, **one), heard, atol=1e-6)
    psi = network.probe_features(text, ["agent", "patient"]).values
    posterior = Posterior.load(finished.folder / "posteriors" / "converged_1" / "01.safetensors")
    chosen = dataset.sel(network=1, sampler="converged", prior=1.0, **one)
    expected = posterior.predict_proba(psi.reshape(6, -1)).reshape(3, 2, 32)
    np.testing.assert_allclose(chosen["mean"], expected, atol=1e-6)
    assert (dataset["low"] <= dataset["high"]).all()
    assert list(dataset["word"].sel(**one).values) == ["cat", "chases", "dog"]
    assert int(dataset["critical"].sel(**one)) == 2


def test_the_file_holds_what_was_returned_and_the_statistics_follow_from_it(
    finished: StudyResult,
) -> None:
    """Recomputed with SciPy alone, to six digits."""
    dataset = read_dataset(finished.folder / "activations.nc")
    xr.testing.assert_equal(dataset, finished.beliefs.answers)
    at_verb = dataset.sel(condition="reversal", position=2, probe="agent").astype(float)

    def average(source: xr.DataArray) -> np.ndarray:
        cells = [source.sel(item=item, unit=item).values for item in ("cat", "bone")]
        return np.mean(cells, axis=0)

    bayes = at_verb["mean"].sel(sampler="paper", prior=1.0)
    test = stats.ttest_rel(average(bayes), average(at_verb["mle"]))
    written = pd.read_csv(finished.folder / "tables" / "paired_models.csv")
    for table in (written, finished.tables["paired_models"]):
        row = table[(table["measure"] == "indicated agent") & (table["estimate"] == "paper")]
        assert float(row["t"].iloc[0]) == pytest.approx(test.statistic, rel=1e-6)
        assert float(row["p"].iloc[0]) == pytest.approx(test.pvalue, rel=1e-6)


def test_the_exact_posterior_is_of_all_tracked_units_of_all_networks(
    finished: StudyResult,
) -> None:
    exact, dataset = finished.beliefs.exact, finished.beliefs.answers
    assert exact is not None
    assert dict(exact.sizes) == {"network": 2, "question": 8}
    assert exact.attrs["posteriors"] == 8
    assert exact.attrs["unconverged"] == "none"
    assert (exact["r_hat"] <= 1.01).all()
    assert (exact["ess"] >= 400).all()
    one = {"condition": "reversal", "item": "bone", "position": 2, "probe": "agent"}
    for sampler in ("paper", "converged"):  # not sampled again
        there = dataset["sd"].sel(sampler=sampler, prior=1.0, unit="bone", **one)
        here = exact[f"{sampler}_sd"].sel(question="reversal, bone: bone as agent")
        np.testing.assert_array_equal(here, there)
    # the Gaussian is close on these networks; for another unit or question it is far
    np.testing.assert_allclose(exact["exact_mean"], exact["converged_mean"], atol=0.02)
    evidence = collect_evidence(finished.run, finished.beliefs, None)
    assert "nuts" not in evidence
    ratio = (exact["paper_sd"] / exact["exact_sd"]).values.ravel()
    np.testing.assert_allclose(np.ravel(evidence["exact"]["paper"][0]), ratio)
    assert evidence["exact"]["networks"] == 2


def test_other_readings_of_n_lie_beside_the_studys_own(finished: StudyResult) -> None:
    readings = finished.study.list_readings()
    assert readings["all"] is finished.study
    pairs = readings["pairs"]
    beliefs = infer(pairs, partial)
    assert (pairs.folder / "pairs" / "activations.nc").exists()
    assert set(beliefs.answers["unit"].values) == {"cat", "bone", "dog", "girl"}
    own = finished.beliefs.answers.sel(unit=beliefs.answers["unit"])
    np.testing.assert_allclose(beliefs.answers["mle"], own["mle"], rtol=1e-4)  # the same networks
    last = pairs.run.networks[1]
    layer = collect_last_layer(pairs.run, last, "drawn pairs")
    unit = last.world.units.index("cat")
    sampler = pairs.settings.inference.samplers["converged"]
    posterior = infer_posterior(layer.select([unit]), sampler, 1.0, 1)
    psi = last.probe_features("the cat chases", ["agent"]).values[-1]
    here = beliefs.answers["mean"].sel(network=1, sampler="converged", prior=1.0, unit="cat")
    found = here.sel(condition="reversal", item="cat", position=2, probe="agent")
    assert float(found) == pytest.approx(float(posterior.predict_proba(psi)[0, 0]), rel=1e-3)


def test_other_steps_and_particles_are_those_of_the_sampler(small_run: Run, tmp_path: Path) -> None:
    changes = {"steps.networks": 1, "steps.step_sizes": ["automatic", 1e-3, 1e9]}
    changes |= {"steps.num_particles": [10], "steps.dropout_rates": [0.3]}
    study = made(tmp_path, small_run, **changes)
    table = vary_sampler(study).to_dataframe().set_index("step_size")
    assert table.loc["0.001", "time"] == pytest.approx(5e-3)
    assert table["diverged"].tolist()[:2] == [0, 0]
    assert table.loc["1000000000.0", "diverged"] > 0
    own = trace_effect(study)["indicated_agent"].isel(network=0, step=5).mean()
    assert table.loc["automatic", "indicated_agent"] == pytest.approx(float(own), rel=1e-4)


def test_nuts_stands_beside_the_exact_posterior_where_it_was_run(finished: StudyResult) -> None:
    exact = finished.beliefs.exact
    assert exact is not None
    first = exact.isel(network=[0], question=slice(3))
    answers = {f"nuts_{name}": 2 * first[f"exact_{name}"] for name in ("mean", "sd", "low", "high")}
    seconds = {f"seconds_{name}": 9.0 for name in ("nuts", "paper", "converged")}
    beliefs = finished.beliefs._replace(nuts=xr.Dataset(answers, attrs=seconds))
    both = beliefs.comparison
    assert both is not None
    assert both["nuts_sd"].notnull().values.tolist() == [[True] * 3 + [False] * 5, [False] * 8]
    evidence = collect_evidence(finished.run, beliefs, None)
    np.testing.assert_allclose(evidence["exact"]["nuts"][0], [2.0] * 3)
    assert len(evidence["exact"]["paper"][0]) == 16
    assert evidence["nuts"]["seconds_nuts"] == 9


def test_the_report_of_ones_own_study_names_its_conditions_and_nothing_of_the_paper(
    finished: StudyResult,
) -> None:
    text = re.sub(r'src="data:[^"]*"', "", finished.report.read_text(encoding="utf-8"))
    assert not re.search(r"pizza|wom[ae]n|dinner|claim|§|printed", text)
    assert "claims" not in finished.tables
    asked, results = text.index("What was asked"), text.index("<section")
    section = text[results : text.index("<section", results + 1)]
    for condition in ("congruent", "reversal"):
        assert f"{condition}: indicated agent " in text[asked:results]
        assert f">{condition}<" in section
    assert "Mean activations at the critical word: reversal." in text[asked:results]
    assert "Mean activations at the critical word: congruent." in section
    assert section.index("<figure") < section.index("<table")


@pytest.mark.parametrize(
    ("quick", "workers", "trained", "said"),
    [
        (False, 2, False, "this takes about 11 minutes on 2 cores of a server; interrupted, it"),
        (False, 1, True, "from its beginning this takes about 22 minutes on 1 core of a server; "),
        (True, 1, False, "this takes about 2 minutes on 1 core of a server; interrupted, it can"),
    ],
)
def test_the_time_of_the_paper_is_announced(
    quick: bool,
    workers: int,
    trained: bool,
    said: str,
    small_run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = prepare(load_study("paper", {"nuts.networks": 0}, quick=quick), tmp_path)
    if trained:
        small_run.save(tmp_path)
    announce_time(study, workers)
    assert capsys.readouterr().err.startswith(said)


def test_nothing_is_announced_of_a_study_of_seconds_and_only_named_files_are_written(
    finished: StudyResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    announce_time(finished.study, 1)
    assert capsys.readouterr().err == ""
    large = [path for path in finished.folder.glob("*") if path.is_file()]
    written = {path.name for path in large} - {"run.toml", "world.toml"}
    assert written == {
        *("settings.toml", "stimuli.csv", "curves.csv", "scores.csv"),
        *("activations.nc", "path.nc", "exact.nc", "report.html"),
    }


def test_a_second_run_makes_nothing_and_returns_the_same(finished: StudyResult) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*.*")}
    own = [path for path in before if path.suffix in (".nc", ".safetensors", ".svg", ".html")]
    again = run_study(finished.study.settings, finished.folder)
    assert [path for path in own if path.stat().st_mtime_ns != before[path]] == []
    assert again.tables.keys() == finished.tables.keys()
    for name, table in again.tables.items():
        pd.testing.assert_frame_equal(table, finished.tables[name])
    assert again.summary == finished.summary


NAMED = (
    *("posteriors/paper_1/00.safetensors", "activations.nc", "path.nc", "exact.nc"),
    *("tables/means.csv", "figures/tau.svg", "report.html"),
)


def test_damage_is_named_and_made_again(finished: StudyResult, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "copy")
    whole = {name: (tmp_path / "copy" / name).read_bytes() for name in NAMED}
    for number, name in enumerate(NAMED):
        (flip if number % 2 else cut)(tmp_path / "copy" / name)
    with pytest.warns(UserWarning, match="checksum mismatch") as notes:
        run_study(finished.study.settings, tmp_path / "copy")
    said = "\n".join(str(note.message) for note in notes)
    for name in NAMED:
        assert Path(name).name in said, name
        if not name.startswith("posteriors"):  # they say how long they took
            assert (tmp_path / "copy" / name).read_bytes() == whole[name], name  # on one day


def test_posteriors_that_are_not_kept_go_and_are_not_missed(
    finished: StudyResult, tmp_path: Path
) -> None:
    repeat(finished, tmp_path / "copy", keep_posteriors=False)
    assert not (tmp_path / "copy" / "posteriors").exists()
    assert not (tmp_path / "copy" / "records" / "posteriors").exists()
    changes = {"keep_posteriors": False}
    run_study(finished.study.settings, tmp_path / "copy", changes=changes)
    assert not (tmp_path / "copy" / "posteriors").exists()


def test_a_changed_setting_repeats_only_what_depends_on_it(
    finished: StudyResult, tmp_path: Path
) -> None:
    shutil.copytree(finished.folder, tmp_path / "copy")
    files = [*(tmp_path / "copy" / "posteriors").rglob("*.safetensors")]
    before = {file: file.stat().st_mtime_ns for file in files}
    changes = {"inference.samplers.paper.num_steps": 4}
    run_study(finished.study.settings, tmp_path / "copy", changes=changes)
    assert len(before) == 8
    for file, time in before.items():
        assert (file.stat().st_mtime_ns != time) == ("paper_" in str(file)), file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stimuli.probes": ["agent"]}, "track patient, so stimuli.probes must contain it"),
        ({"stimuli.probes": ["agent", "patient", "tool"]}, "stimuli.probes: unknown role 'tool'"),
        ({"stimuli.non_relevant": ["elephant"]}, "unknown unit 'elephant'"),
        ({"training.hiden": 3}, "unknown setting 'hiden': did you mean 'hidden'"),
        ({"inference.samplers.paper.method": "drpout"}, r"paper\]: method must be one of"),
        ({"inference.samplers.paper.options": {"dropout_rate": 1.5}}, r"dropout_rate must lie in"),
        ({"inference.samplers.converged.options": {"taming": "printed"}}, "taming"),
    ],
)
def test_mistakes_are_found_before_any_work(
    small_run: Run, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        made(tmp_path, small_run, **change)
    assert not any((tmp_path / "out").glob("*"))


def test_missing_numpyro_is_reported_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"needs NumPyro: .* --set nuts\.networks=0"):
        prepare(load_study("paper"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    prepare(load_study("paper", {"nuts.networks": 0}), tmp_path / "without")


def test_two_workers_give_the_same_bits_as_none(small_run: Run, tmp_path: Path) -> None:
    for workers in (1, 2):
        study = made(tmp_path / str(workers), small_run)
        run_study(study.settings, study.folder, workers=workers)
        assert len(list(study.folder.glob("posteriors/*/*"))) == 8
    assert [*find_differences(tmp_path / "1" / "out", tmp_path / "2" / "out")] == []
