"""Many studies: real worker processes, some of them killed, and the same bytes at the end."""

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed  # noqa: F401 – reads its settings, before tests change some of them
import pandas as pd
import psutil
import pytest
from tests.paper.test_running import STIMULI

from equivocal.multiverse.cluster import hire_workers, work_alone
from equivocal.multiverse.grid import Grid, load_sweep, make_sweep, parse_varied
from equivocal.multiverse.run import run_sweep
from equivocal.multiverse.tasks import UnfinishedError
from equivocal.store.store import Store
from equivocal.world import read_example
from lastlayer.errors import UserError

# Trainings and samplers are as short as can be: these tests are about who runs what, and how often.
STUDY = """
name = "garden"
world = "garden.toml"
[training]
networks = 2
sentences = 60
epochs = 2
steps = 5
questions = 64
hidden = 20
gestalt = 20
[stimuli]
file = "garden.csv"
[inference]
prior_variances = [1.0]
units = "tracked"
[inference.samplers.paper]
method = "dropout-deterministic"
num_particles = 10
num_steps = 2
[inference.samplers.converged]
method = "exact-flow"
num_particles = 2
[path]
num_steps = 2
networks = 1
[exact]
networks = 0
[nuts]
networks = 0
"""
SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
"inference.seed" = [0, 7]
"""


def write_sweep(folder: Path, text: str = SWEEP) -> Path:
    (folder / "garden.toml").write_text(read_example())
    (folder / "study.toml").write_text(STUDY)
    (folder / "garden.csv").write_text(STIMULI)
    (folder / "sweep.toml").write_text(text)
    return folder / "sweep.toml"


def silent(done: int, total: int, state: str) -> None:
    """Ignore progress."""


@contextmanager
def use_one_core() -> Iterator[None]:
    """Confine this process to one core, as a worker is, since training groups networks by cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def written(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the tables and of `varied.toml`."""
    paths = [folder / "sweep.csv", folder / "varied.toml", *sorted((folder / "tables").iterdir())]
    return {path.name: path.read_bytes() for path in paths}


def times(folder: Path) -> dict[str, int]:
    """Return when each result was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "results").iterdir()}


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the worker processes that a process has started."""
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".")]


@pytest.fixture(scope="module")
def undisturbed(
    made_once: Callable[[str, Callable[[Path], None]], Path],
) -> tuple[Grid, Path]:
    """A sweep that one process ran from beginning to end."""

    def make(folder: Path) -> None:
        with use_one_core():
            run_sweep(load_sweep(write_sweep(folder)), folder / "out", on_step=silent)

    folder = made_once("sweep", make)
    return load_sweep(folder / "sweep.toml"), folder / "out"


def test_points_are_all_combinations_in_order(tmp_path: Path) -> None:
    points = load_sweep(write_sweep(tmp_path)).points
    assert [tuple(point.varied.values()) for point in points] == [(0, 0), (0, 7), (1, 0), (1, 7)]
    assert [point.settings.training_settings.seed for point in points] == [0, 0, 1, 1]
    assert [point.settings.inference.seed for point in points] == [0, 7, 0, 7]


def test_presets_and_quick_runs_can_be_swept() -> None:
    quick = make_sweep("paper", {"training.hidden": [50, 100]}, quick=True)
    assert [point.settings.training_settings.hidden for point in quick.points] == [50, 100]
    assert all(point.settings.quick_run for point in quick.points)
    assert parse_varied(["a.b=[1.0,2.0],[3.0]", "c=0.1,automatic"]) == {
        "a.b": [[1.0, 2.0], [3.0]],
        "c": [0.1, "automatic"],
    }


def test_files_of_killed_workers_are_removed_even_if_nothing_is_missing(
    undisturbed: tuple[Grid, Path], tmp_path: Path
) -> None:
    sweep, folder = undisturbed
    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / ".scratch" / "worker-1").mkdir(parents=True)
    run_sweep(sweep, tmp_path / "out", on_step=silent)
    assert left_behind(tmp_path / "out") == []


def test_rows_are_those_of_each_study_with_its_settings_in_front(
    undisturbed: tuple[Grid, Path],
) -> None:
    sweep, folder = undisturbed
    table = pd.read_csv(folder / "tables" / "paired_models.csv")
    assert list(table.columns[:2]) == ["training.seed", "inference.seed"]
    points = table[["training.seed", "inference.seed"]].drop_duplicates().to_numpy().tolist()
    assert points == [[0, 0], [0, 7], [1, 0], [1, 7]]
    # another seed of the sampler moves the posterior, not the networks it is about
    shown = table[(table["measure"] == "indicated agent") & (table["estimate"] == "paper")]
    assert shown["t"].nunique() == len(sweep.points)
    assert len(list((folder / "networks").iterdir())) == 2  # trained once for two points each
    assert pd.read_csv(folder / "sweep.csv").to_numpy().tolist() == points  # it claims nothing


def test_folder_says_what_was_swept(undisturbed: tuple[Grid, Path]) -> None:
    _, folder = undisturbed
    record = tomllib.loads((folder / "varied.toml").read_text())
    assert record["versions"].keys() >= {"python", "equivocal", "jax"}
    tables = sorted(path.stem for path in (folder / "tables").iterdir())
    assert {**record, "versions": {}} == {
        "tables": tables,
        "study": "garden",
        "quick": False,
        "vary": {"training.seed": [0, 1], "inference.seed": [0, 7]},
        "versions": {},
    }


def test_another_sweep_says_what_it_replaces_and_leaves_no_table_of_the_former(
    undisturbed: tuple[Grid, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, whole = undisturbed
    out, beside = tmp_path / "out", tmp_path / "mine.csv"
    shutil.copytree(whole, out)
    run_sweep(sweep, out, on_step=silent)
    assert capsys.readouterr().err == ""
    record = (out / "varied.toml").read_text()
    named = record.replace("tables = [", 'tables = ["no_more", "gone", "../../mine", 3,')
    (out / "varied.toml").write_text(named)
    for path in (out / "tables" / "no_more.csv", out / "tables" / "own.csv", beside):
        path.write_text("a\n")
    run_sweep(Grid(sweep.points[:1]), out, on_step=silent)
    told = f"overwriting results in {out} that differ in vary.training.seed, vary.inference.seed"
    assert capsys.readouterr().err == told + "\n"
    assert written(out).keys() == written(whole).keys() | {"own.csv"}
    assert beside.exists()


@pytest.mark.slow
def test_killed_workers_change_nothing(undisturbed: tuple[Grid, Path], tmp_path: Path) -> None:
    """Both workers are killed at once, at least one with a study in hand.

    And they are slow to come back: Dask would give them up after a second, and wait for good.
    """
    sweep, whole = undisturbed
    killed: list[psutil.Process] = []

    def kill_all(done: int, total: int, state: str) -> None:
        if done == 1:
            killed.extend(workers_of(os.getpid()))
            for worker in killed:
                worker.kill()

    out = tmp_path / "out"
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        run_sweep(sweep, out, on_step=kill_all, hire=hire_workers(out, workers=2))
    assert len(killed) == 2
    assert written(out) == written(whole)
    assert workers_of(os.getpid()) == []
    assert left_behind(out) == []


def test_only_what_is_missing_or_damaged_is_done_again(
    undisturbed: tuple[Grid, Path], tmp_path: Path
) -> None:
    """Results are lost and damaged, as they may be in a folder that was copied."""
    sweep, whole = undisturbed
    out = tmp_path / "elsewhere"
    subprocess.run(["cp", "-rp", whole, out], check=True)
    before = times(out)
    points = list(before)
    lost, flipped = points[0], out / "results" / points[1]
    (out / "results" / lost).unlink()
    forged = points[2]  # its checksum is right
    content = {"claims": "a\n" + 200_000 * "x", "tables": {}}
    (out / "results" / forged).write_text(json.dumps(content))
    key = forged.removesuffix(".json")
    Store(out).record(f"results/{key}", key, [out / "results" / forged])
    for networks in (out / "networks").iterdir():
        (networks / "notes.txt").write_text("of somebody who looked at them")
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    steps: list[tuple[int, int]] = []
    with use_one_core(), pytest.warns(UserWarning, match="recomputing") as told:
        run_sweep(sweep, out, on_step=lambda done, total, _: steps.append((done, total)))
    said = "\n".join(str(one.message) for one in told)
    assert len(told) == 2
    assert f"{flipped}: checksum mismatch" in said
    assert f"{out / 'results' / forged} is damaged" in said
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert written(out) == written(whole)
    changed = {name for name, when in times(out).items() if when != before[name]}
    assert changed == {lost, flipped.name, forged}


@pytest.mark.slow
def test_damaged_networks_are_named_and_trained_again(
    undisturbed: tuple[Grid, Path], tmp_path: Path
) -> None:
    sweep, whole = undisturbed
    out = tmp_path / "out"
    subprocess.run(["cp", "-rp", whole, out], check=True)
    for path in (out / "results").iterdir():
        path.unlink()
    weights = sorted((out / "networks").rglob("01.safetensors"))[0]
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with use_one_core(), pytest.warns(UserWarning, match=r"01\.safetensors: checksum mismatch"):
        run_sweep(sweep, out, on_step=silent)
    assert weights.read_bytes() == content
    assert written(out) == written(whole)


def test_failure_of_one_does_not_stop_the_others(
    undisturbed: tuple[Grid, Path], tmp_path: Path
) -> None:
    sweep, whole = undisturbed
    out = tmp_path / "out"
    subprocess.run(["cp", "-rp", whole, out], check=True)
    write_sweep(tmp_path)
    bad = {"training.seed": [0], "inference.samplers.paper.options.no_such": [1]}
    points = make_sweep(tmp_path / "study.toml", bad).points
    with pytest.raises(UnfinishedError, match=r"1 of 5 failed, .*no_such.* only that\."):
        run_sweep(Grid((*points, *sweep.points)), out, on_step=silent)
    record = {"varied.toml": b"names what failed too"}
    assert written(out) | record == written(whole) | record
    assert times(out) == times(whole)


def test_missing_numpyro_is_reported_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)  # as if it were not installed
    write_sweep(tmp_path)
    changes = {"training.seed": [0, 1], "nuts.networks": [1]}
    sweep = make_sweep(tmp_path / "study.toml", changes)
    with pytest.raises(UnfinishedError, match=r"2 of 2 failed, .* needs NumPyro"):
        run_sweep(sweep, tmp_path / "out", on_step=silent)
    assert not (tmp_path / "out" / "networks").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SWEEP.replace("training.seed", "training.sed"), "unknown setting 'sed': did you mean"),
        (SWEEP.replace("[0, 1]", '[0, "one"]'), "seed"),
        (SWEEP.replace("[0, 1]", "[0, -1]"), "seed must be from 0"),
        (SWEEP.replace("[0, 1]", "1"), "training.seed = 1 is wrong: give a list"),
        (SWEEP.replace("[0, 1]", "[]"), "give a list of values"),
        (SWEEP.replace("[0, 1]", "[1, 1.0]"), "has a value twice"),
        (SWEEP.replace("[vary]", "[varies]"), "unknown key 'varies': did you mean 'vary'"),
        ('study = "study.toml"\n[vary]', "varies something"),
        (SWEEP.replace("study.toml", "no.toml"), "cannot read .*no.toml"),
        ("[vary", "is not TOML"),
    ],
)
def test_wrong_sweep_is_explained_before_any_work(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        run_sweep(load_sweep(write_sweep(tmp_path, text)), tmp_path / "out", on_step=silent)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("pair", ["training.seed", "=1,2", "training.seed="])
def test_wrong_option_is_explained(pair: str) -> None:
    with pytest.raises(UserError, match=r"--vary takes name=value"):
        parse_varied([pair])


def test_unreachable_scheduler_is_reported_soon(tmp_path: Path) -> None:
    sweep = load_sweep(write_sweep(tmp_path))
    for address in ("tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense://x", "no port"):
        began = time.monotonic()
        hire = hire_workers(tmp_path / "out", None, address, patience=0.5)
        with pytest.raises(UserError, match=f"no Dask scheduler answers at '{address}'"):
            run_sweep(sweep, tmp_path / "out", hire=hire, on_step=silent)
        assert time.monotonic() - began < 5
    assert dask.config.get("scheduler", None) is None  # xarray would ask it


def test_workers_that_die_at_start_are_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "")  # Dask sets it in this process too: so it is taken back
    monkeypatch.delenv("PYTHONHOME")
    nothing = {"distributed.nanny.pre-spawn-environ.PYTHONHOME": str(tmp_path)}  # no Python there
    with (
        dask.config.set(nothing),
        pytest.raises(UserError, match="start-up .* --workers"),
        hire_workers(tmp_path / "out", workers=1)(1),
    ):
        pass
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_programs_compiled_by_one_worker_are_reused_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "cache"))

    def found() -> int:
        import jax

        events: list[str] = []
        jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
        jax.jit(lambda x: jax.numpy.linalg.eigh(x @ x.T))(jax.numpy.eye(9))
        return events.count("/jax/compilation_cache/cache_hits")

    hits = []
    for _ in range(2):  # crews: a worker that lives on would compile nothing anyway
        with hire_workers(tmp_path / "out", workers=1)(1) as crew:
            crew.submit("one", found)
            hits += [number for _, number in crew.iterate_finished()]
    assert hits[0] == 0
    assert hits[1] > 0


@pytest.mark.parametrize("worker", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_calls_with_soon_overtake_waiting_calls(worker: bool, tmp_path: Path) -> None:
    hire, order = hire_workers(tmp_path, workers=1) if worker else work_alone, list[str]()
    with hire(8) as crew:
        for name in "abcd":
            crew.submit(name, time.sleep, 0.3)
        for name, _ in crew.iterate_finished():
            order.append(name)
            if name in "abcd":
                crew.submit(f"{name} again", time.sleep, 0.3, soon=True)
    assert order.index("a again") < order.index("d")


def test_calls_with_soon_keep_their_order() -> None:
    with work_alone(4) as crew:
        for name in "abcd":
            crew.submit(name, int, soon=name in "bc")
        assert [name for name, _ in crew.iterate_finished()] == ["b", "c", "a", "d"]


def test_workers_and_scheduler_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give one of them"):
        hire_workers(tmp_path, workers=2, scheduler="tcp://127.0.0.1:9")


def test_without_dask_one_process_does_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    assert hire_workers(tmp_path) is work_alone
    assert hire_workers(tmp_path, workers=1) is work_alone
    for asked in ({"workers": 2}, {"scheduler": "tcp://127.0.0.1:9"}):
        with pytest.raises(UserError, match=r"pip install 'equivocal\[cluster\]'"):
            hire_workers(tmp_path, **asked)
