"""A whole small study: stages are done once, resumed after a loss, and repeated where needed."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.io import netcdf_file

from equivocal.network import Run
from equivocal.paper.claims import COLUMNS
from equivocal.paper.preparation import open_study, prepare
from equivocal.paper.report import list_figures, write_report
from equivocal.paper.settings import load_study
from equivocal.paper.stages import Study
from equivocal.paper.summary import describe_stop
from equivocal.result import studies
from equivocal.store.folders import has_run
from equivocal.store.store import Store
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


def quiet(done: int, total: int, state: str) -> None:
    assert 0 <= done <= total
    assert state


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
def finished(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = made(tmp_path_factory.mktemp("study"), small_run)
    study.infer(quiet)
    study.probe(quiet)
    study.analyse()
    return study


def test_activations_are_those_of_network_and_posterior(finished: Study) -> None:
    dataset = finished.read("activations.nc")
    assert dict(dataset.sizes) == {
        "sampler": 2,
        "prior": 2,
        "network": 2,
        "condition": 2,
        "item": 2,
        "position": 3,
        "probe": 2,
        "unit": 32,
        "role": 2,
        "non_relevant": 4,
    }
    tracked = dataset["tracked"].sel(condition="reversal", item="cat")
    assert dict(zip(dataset["role"].values, tracked.values, strict=True)) == {
        "agent": "cat",
        "patient": "dog",
    }
    assert list(dataset["non_relevant"].values) == ["dog", "cat", "girl", "bone"]
    network = finished.run.networks[1]
    text = "the cat chases the dog"
    heard = network.comprehend(text, ["agent", "patient"])
    one = {"condition": "reversal", "item": "cat"}
    np.testing.assert_allclose(dataset["mle"].sel(network=1, **one), heard, atol=1e-6)
    path = finished.folder / "posteriors" / "converged_1" / "01.safetensors"
    psi = network.probe_features(text, ["agent", "patient"]).values
    posterior = Posterior.load(path)
    chosen = dataset.sel(network=1, sampler="converged", prior=1.0, **one)
    expected = posterior.predict_proba(psi.reshape(6, -1)).reshape(3, 2, 32)
    np.testing.assert_allclose(chosen["mean"], expected, atol=1e-6)
    assert (dataset["low"] <= dataset["high"]).all()
    assert list(dataset["word"].sel(**one).values) == ["cat", "chases", "dog"]
    assert int(dataset["critical"].sel(**one)) == 2


def test_the_flat_table_is_written_when_asked_for_and_holds_the_same(
    finished: Study, tmp_path: Path
) -> None:
    flat = {"activations.csv.gz", "dictionary.csv"}
    assert not flat & {path.name for path in finished.folder.iterdir()}
    shutil.copytree(finished.folder, tmp_path / "copy")
    study = Study(finished.settings.change({"flat_table": True}), tmp_path / "copy")
    before = (study.folder / "activations.nc").stat().st_mtime_ns
    study.probe(quiet)
    assert (study.folder / "activations.nc").stat().st_mtime_ns == before  # not made again
    frame = pd.read_csv(study.folder / "activations.csv.gz")
    words = pd.read_csv(study.folder / "dictionary.csv")
    assert list(words["column"]) == list(frame.columns)
    dataset = finished.read("activations.nc")
    assert len(frame) == dataset["mle"].size
    row = frame.iloc[1000]
    where = {name: row[name] for name in ("network", "condition", "item", "position", "probe")}
    cell = dataset.sel(**where, unit=row["unit"])
    assert row["mle"] == pytest.approx(float(cell["mle"]), rel=1e-6)
    same = float(cell["sd"].sel(sampler="paper", prior=0.1))
    assert row["paper_0.1_sd"] == pytest.approx(same, rel=1e-6)


def test_statistics_follow_from_the_file(finished: Study) -> None:
    """Recomputed with scipy alone, to six digits."""
    dataset = xr.load_dataset(finished.folder / "activations.nc", engine="scipy")
    indicated = {"cat": "cat", "bone": "bone"}
    at_verb = dataset.sel(condition="reversal", position=2, probe="agent").astype(float)

    def average(source: xr.DataArray) -> np.ndarray:
        cells = [source.sel(item=item, unit=unit).values for item, unit in indicated.items()]
        return np.mean(cells, axis=0)

    bayes = at_verb["mean"].sel(sampler="paper", prior=1.0)
    test = stats.ttest_rel(average(bayes), average(at_verb["mle"]))
    table = pd.read_csv(finished.folder / "tables" / "paired_models.csv")
    row = table[(table["measure"] == "indicated agent") & (table["estimate"] == "paper")]
    assert float(row["t"].iloc[0]) == pytest.approx(test.statistic, rel=1e-6)
    assert float(row["p"].iloc[0]) == pytest.approx(test.pvalue, rel=1e-6)


def test_the_path_starts_at_the_prior_and_moves(finished: Study) -> None:
    path = finished.read("path.nc")
    assert path["time"].shape == (1, 7)
    assert (np.diff(path["time"].values[0]) > 0).all()
    agents = path["indicated_agent"].values
    assert np.isfinite(agents).all()
    assert not np.allclose(agents[:, 0], agents[:, -1])


def test_the_exact_posterior_is_of_all_tracked_units_of_all_networks(finished: Study) -> None:
    exact, dataset = finished.read("exact.nc"), finished.read("activations.nc")
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
    assert ((exact["exact_low"] <= exact["exact_mean"]) & (exact["exact_mean"] < 1)).all()
    evidence = finished.collect_evidence()
    assert "nuts" not in evidence
    ratio = (exact["paper_sd"] / exact["exact_sd"]).values.ravel()
    np.testing.assert_allclose(np.ravel(evidence["exact"]["paper"][0]), ratio)
    assert evidence["exact"]["networks"] == 2


def test_nuts_stands_beside_the_exact_posterior_where_it_was_run(
    finished: Study, tmp_path: Path
) -> None:
    shutil.copytree(finished.folder, tmp_path / "copy")
    first = finished.read("exact.nc").isel(network=[0], question=slice(3))
    answers = {f"nuts_{name}": 2 * first[f"exact_{name}"] for name in ("mean", "sd", "low", "high")}
    seconds = {f"seconds_{name}": 9.0 for name in ("nuts", "paper", "converged")}
    attributes = {"units": "dog, cat", "network": 0, "verdict": "converged.", **seconds}
    dataset = xr.Dataset(answers, attrs=attributes).drop_encoding()
    dataset.to_netcdf(tmp_path / "copy" / "nuts.nc", engine="scipy")
    study = Study(finished.settings.change({"nuts.networks": 1}), tmp_path / "copy")
    both = study.read_comparison()
    assert both["nuts_sd"].notnull().values.tolist() == [[True] * 3 + [False] * 5, [False] * 8]
    evidence = study.collect_evidence()
    np.testing.assert_allclose(evidence["exact"]["nuts"][0], [2.0] * 3)
    assert evidence["exact"]["unconverged"] == "none"
    assert len(evidence["exact"]["paper"][0]) == 16
    assert evidence["nuts"]["seconds_nuts"] == 9


def test_the_report_of_ones_own_study_names_its_conditions_and_nothing_of_the_paper(
    finished: Study, tmp_path: Path
) -> None:
    shutil.copytree(finished.folder, tmp_path / "copy")
    study = open_study(tmp_path / "copy")
    assert write_report(study)
    page = study.folder / "report.html"
    text = re.sub(r'src="data:[^"]*"', "", page.read_text(encoding="utf-8"))
    assert not re.search(r"pizza|wom[ae]n|dinner|claim|§|printed", text)
    summary, results = text.index('id="summary"'), text.index('id="results"')
    assert summary < results < text.index('id="figures"') < text.index('id="tables"')
    section = text[results : text.index('id="figures"')]
    for condition in ("congruent", "reversal"):
        assert f"{condition}: indicated agent " in text[summary:results]
        assert f"Mean activations at the critical word: {condition}." in section
        assert section.count(f">{condition}<") == 3 + 2 * (condition == "reversal")
    assert section.index("<figure") < section.index("<table")
    assert not write_report(open_study(study.folder))


def test_the_number_of_steps_stands_beside_the_time_that_they_reach(finished: Study) -> None:
    folder = finished.folder / "posteriors" / "paper_1"
    times = [Posterior.load(path).info.time for path in sorted(folder.glob("*.safetensors"))]
    assert len(times) == 2
    reached = f"steps (τ = {np.median(times):.2g})"
    assert describe_stop(finished).replace(" of the sampler", "").endswith(reached)
    panel = list_figures(finished)["tau"]().axes[0]  # of whose path one network is known
    assert [label for line in panel.lines if (label := str(line.get_label())).endswith(reached)]


def test_the_rows_of_a_network_are_collected_once_for_all_its_posteriors(finished: Study) -> None:
    study = open_study(finished.folder)
    assert study._collect_rows(1) is study._collect_rows(1)
    for index in (0, 1):
        trained = finished.run.networks[index].last_layer().sel(unit=list(study.sampled_units))
        np.testing.assert_array_equal(study._collect_rows(index).trained, trained)


def test_a_second_run_does_nothing(finished: Study) -> None:
    files = [*sorted(finished.folder.rglob("*.safetensors")), finished.folder / "activations.nc"]
    before = [file.stat().st_mtime_ns for file in files]
    again = open_study(finished.folder)
    again.infer(quiet)
    again.probe(quiet)
    assert not again.analyse()
    assert [file.stat().st_mtime_ns for file in files] == before


def test_damaged_activations_are_named(finished: Study, tmp_path: Path) -> None:
    whole = (finished.folder / "activations.nc").read_bytes()
    (tmp_path / "activations.nc").write_bytes(whole[: len(whole) // 2])
    study = Study(finished.settings, tmp_path)
    with pytest.raises(UserError, match=r"activations\.nc is damaged .*`equivocal probe"):
        study.read("activations.nc")
    numbers = xr.Dataset({"text": ("letter", np.ones(3, np.int8), {"_Encoding": "utf-8"})})
    numbers.to_netcdf(tmp_path / "activations.nc", engine="scipy")
    with pytest.raises(UserError, match=r"activations\.nc is damaged .*'decode'"):
        study.read("activations.nc")
    with netcdf_file(tmp_path / "activations.nc", "w") as file:
        file.createDimension("item", 3)
        file.createVariable("mle", "b", ["item"]).missing_value = np.float64(np.nan)
    with pytest.raises(UserError, match=r"activations\.nc is damaged"):  # and not a word more
        study.read("activations.nc")


def test_tables_that_were_changed_or_removed_are_written_again(finished: Study) -> None:
    table, other = (
        finished.folder / "tables" / f"{n}.csv" for n in ("paired_models", "mixed_model")
    )
    whole = table.read_bytes()
    table.write_text("spoilt")
    with pytest.raises(
        UserError, match=r"paired_models\.csv: checksum .* `equivocal analyse --out"
    ):
        open_study(finished.folder).check_analysis()
    with pytest.warns(match=r"paired_models\.csv: checksum mismatch"):
        assert open_study(finished.folder).analyse()
    for lost in (table, other):
        lost.unlink()
        assert open_study(finished.folder).analyse()
        assert table.read_bytes() == whole
        assert not open_study(finished.folder).analyse()


NAMED = [
    "posteriors/converged_1/01.safetensors",
    *("activations.nc", "path.nc", "exact.nc"),
    *("claims.csv", "tables/paired_models.csv"),
]


def test_damage_is_named_and_made_again(finished: Study, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    whole = {name: (folder / name).read_bytes() for name in NAMED[1:]}
    (folder / "claims.csv").write_bytes(b"x" * 80)  # it holds next to nothing here
    for number, name in enumerate(NAMED):
        (cut if number % 2 else flip)(folder / name)
    study, before = open_study(folder), Posterior.load(finished.folder / NAMED[0])
    with pytest.raises(UserError, match=r"01\.safetensors: checksum mismatch.*`equivocal infer"):
        study.probe(quiet)
    with pytest.raises(UserError, match=r"activations\.nc: checksum mismatch.*`equivocal probe"):
        study.analyse()
    with pytest.warns(match="checksum mismatch") as notes:  # noqa: PT031
        study.infer(quiet)
        study.probe(quiet)
        study.analyse()
    said = "\n".join(str(note.message) for note in notes)
    assert [name for name in NAMED if f"{folder / name}: checksum mismatch" in said] == NAMED
    assert len(notes) == len(NAMED)
    for name, content in whole.items():
        assert (folder / name).read_bytes() == content, name
    # safetensors writes what is in its header in any order
    np.testing.assert_array_equal(Posterior.load(folder / NAMED[0]).particles, before.particles)


@pytest.mark.parametrize("name", ["stimuli.csv", "settings.toml"])
def test_the_studys_own_copies_are_written_again(small_run: Run, tmp_path: Path, name: str) -> None:
    made(tmp_path, small_run)
    path = tmp_path / "out" / name
    whole = path.read_bytes()
    path.write_bytes(whole + b"\n")
    with pytest.warns(match=rf"{name} was changed .*; it is used"):
        open_study(tmp_path / "out")
    with pytest.warns(match=rf"{name}: checksum mismatch"):
        made(tmp_path, small_run)
    assert path.read_bytes() == whole
    (tmp_path / "out" / "settings.toml").write_text("name = ")
    with pytest.raises(UserError, match=r"settings\.toml.*`equivocal reproduce --out"):
        open_study(tmp_path / "out")


@pytest.mark.parametrize("text", ["{", "[]", '{"key": 3}', '{"key": "b", "files": {"../x": "y"}}'])
def test_a_damaged_record_is_named_and_its_stage_repeated(text: str, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "probe.json").write_text(text)
    with pytest.warns(match=r"probe\.json is damaged"):
        assert Store(tmp_path).find("probe", "b") is None


def test_posteriors_that_are_not_kept_are_sampled_again_where_they_are_asked(
    finished: Study, tmp_path: Path
) -> None:
    """They go once they have answered, are not missed, and come back with the same bits."""
    shutil.copytree(finished.folder, tmp_path / "copy")
    study = Study(finished.settings.change({"keep_posteriors": False}), tmp_path / "copy")
    study.drop_posteriors()
    assert not (study.folder / "posteriors").exists()
    assert not (study.folder / "records" / "posteriors").exists()
    study.infer(quiet)
    study.probe(quiet)
    assert not (study.folder / "posteriors").exists()
    for how, load in finished.find_posteriors().items():
        again = study.find_posteriors()[how](1)
        np.testing.assert_array_equal(again.particles, load(1).particles)
    (study.folder / "activations.nc").unlink()
    again = Study(study.settings, study.folder)
    again.infer(quiet)
    again.probe(quiet)
    name = "activations.nc"
    assert (study.folder / name).read_bytes() == (finished.folder / name).read_bytes()


def test_lost_files_are_recomputed_bit_for_bit(finished: Study) -> None:
    lost = finished.folder / "posteriors" / "paper_1" / "00.safetensors"
    before, other = Posterior.load(lost), (finished.folder / "activations.nc").read_bytes()
    lost.unlink()
    (finished.folder / "activations.nc").unlink()
    again = open_study(finished.folder)
    again.infer(quiet)
    again.probe(quiet)
    np.testing.assert_array_equal(Posterior.load(lost).particles, before.particles)
    assert (finished.folder / "activations.nc").read_bytes() == other


def test_a_changed_setting_repeats_only_what_depends_on_it(small_run: Run, tmp_path: Path) -> None:
    made(tmp_path, small_run).infer(quiet)
    files = sorted((tmp_path / "out" / "posteriors").rglob("*.safetensors"))
    before = {file: file.stat().st_mtime_ns for file in files}
    watched = tmp_path / "out" / "posteriors" / "paper_1" / "00.safetensors"
    first, records = Posterior.load(watched), tmp_path / "out" / "records" / "posteriors"
    shutil.copytree(records, tmp_path / "recorded")
    changed = made(tmp_path, small_run, **{"inference.samplers.paper.num_steps": 4})
    changed.infer(quiet)
    for file, time in before.items():
        assert (file.stat().st_mtime_ns != time) == ("paper_" in str(file)), file
    # Back to the first settings after a kill between a posterior and the record that it is there
    shutil.copytree(tmp_path / "recorded", records, dirs_exist_ok=True)
    with pytest.warns(match="checksum mismatch") as notes:
        made(tmp_path, small_run).infer(quiet)
    assert any(str(watched) in str(note.message) for note in notes)
    np.testing.assert_array_equal(Posterior.load(watched).particles, first.particles)


def test_each_of_more_than_a_hundred_networks_has_its_own_key(
    small_run: Run, tmp_path: Path
) -> None:
    """Only the last network differs; in alphabetical order it would stand between 10 and 11."""
    study = made(tmp_path, small_run)
    first, second = study.network_keys
    assert first != second
    networks = study.folder / "networks"
    shutil.copy(networks / "01.safetensors", networks / "100.safetensors")
    for index in range(1, 100):
        shutil.copy(networks / "00.safetensors", networks / f"{index:02d}.safetensors")
    many = Study(study.settings, study.folder)
    models = (*[small_run.models[0]] * 100, small_run.models[1])
    settings = replace(small_run.settings, networks=len(models))
    many.run = replace(small_run, settings=settings, models=models)
    assert many.network_keys == [*[first] * 100, second]


def test_stages_say_what_is_missing(small_run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study"):
        open_study(tmp_path)
    study = made(tmp_path, small_run)
    with pytest.raises(UserError, match=r"safetensors.* is missing; `equivocal infer"):
        study.probe(quiet)
    with pytest.raises(UserError, match=r"activations.nc is missing; `equivocal probe"):
        study.analyse()
    (tmp_path / "out" / "records" / "networks.json").unlink()
    with pytest.raises(UserError, match="no trained networks"):
        open_study(tmp_path / "out").infer(quiet)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stimuli.probes": ["agent"]}, "track patient, so stimuli.probes must contain it"),
        ({"stimuli.probes": ["agent", "patient", "tool"]}, "stimuli.probes: unknown role 'tool'"),
        ({"stimuli.non_relevant": ["elephant"]}, "unknown unit 'elephant'"),
        ({"stimuli.shown": "mouse"}, "unknown item 'mouse'; there are cat, bone"),
        ({"training.hiden": 3}, "unknown setting 'hiden': did you mean 'hidden'"),
    ],
)
def test_mistakes_are_found_before_any_work(
    small_run: Run, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        made(tmp_path, small_run, **change)


def test_missing_numpyro_is_reported_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"needs NumPyro: .* --set nuts\.networks=0"):
        prepare(load_study("paper"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    prepare(load_study("paper", {"nuts.networks": 0}), tmp_path / "without")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "nuts.nc").touch()
    prepare(load_study("paper"), tmp_path / "done")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inference.samplers.paper.method": "drpout"}, r"paper\]: method must be one of"),
        ({"inference.samplers.paper.options": {"dropout_rate": 1.5}}, r"dropout_rate must lie in"),
        ({"inference.samplers.converged.options": {"taming": "printed"}}, "taming"),
    ],
)
def test_samplers_are_checked_before_any_work(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        prepare(load_study("paper", {"nuts.networks": 0, **changes}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_make_reproduce_installs_what_the_paper_needs() -> None:
    makefile = (Path(__file__).parents[4] / "Makefile").read_text()
    assert load_study("paper").nuts.networks > 0
    assert re.search(r'--editable "\.\[[^]]*\bnuts\b', makefile.partition("installed-dev:")[0])


def test_analysis_returns_every_table(finished: Study) -> None:
    tables = studies.analyse(finished.folder)
    written = {path.stem for path in (finished.folder / "tables").glob("*.csv")}
    assert set(tables) == written | {"claims"}
    table = pd.read_csv(finished.folder / "tables" / "paired_models.csv")
    pd.testing.assert_frame_equal(tables["paired_models"], table)


def test_a_quick_run_says_first_that_its_verdicts_mean_nothing(finished: Study) -> None:
    quick = Study(finished.settings.model_copy(update={"quick_run": True}), finished.folder)
    hurried, full = (studies._collect_result(study).summary for study in (quick, finished))
    assert "verdicts and effects mean nothing" in hurried[0]
    assert hurried[1:] == full


def test_files_of_others_are_never_overwritten(finished: Study, tmp_path: Path) -> None:
    (tmp_path / "claims.csv").write_text("mine")
    with pytest.raises(UserError, match=r"holds claims\.csv, which would be overwritten"):
        studies.run_study(finished.folder.parent / "source" / "study.toml", tmp_path)
    assert (tmp_path / "claims.csv").read_text() == "mine"
    assert not (tmp_path / "settings.toml").exists()


def test_a_study_that_is_refused_changes_nothing(finished: Study) -> None:
    files = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}
    source = finished.folder.parent / "source" / "study.toml"
    with pytest.raises(UserError, match="holds another run"):
        studies.run_study(source, finished.folder, changes={"training.epochs": 31})
    after = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}
    assert after == files


@pytest.mark.slow
def test_a_whole_study_is_resumed_and_returns_its_tables(finished: Study) -> None:
    times = {path: path.stat().st_mtime_ns for path in finished.folder.rglob("*.safetensors")}
    result = studies.run_study(finished.folder.parent / "source" / "study.toml", finished.folder)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert result.folder == finished.folder
    assert result.report.exists()
    assert result.settings["name"] == "garden"
    assert list(result.tables["claims"].columns) == COLUMNS
    assert result.tables.keys() > {"paired_models", "mixed_model"}
    assert [len(run.networks) for run in (result.run, finished.run)] == [2, 2]
