"""Worker processes: the same bits as in this process, and none is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from benchmarks.same_results import find_differences
from tests.paper.test_running import made, quiet

from equivocal.network import Run
from equivocal.paper.preparation import prepare
from equivocal.paper.settings import load_study
from equivocal.result import studies
from equivocal.workers import count_workers, open_workers
from lastlayer.errors import UserError


def test_two_workers_give_the_same_bits_as_none(small_run: Run, tmp_path: Path) -> None:
    for workers in (1, 2):
        study = made(tmp_path / str(workers), small_run)
        with open_workers(workers, study.folder) as begin:
            study.infer(quiet, begin)
            study.probe(quiet, begin)
        assert len(list(study.folder.glob("posteriors/*/*"))) == 8
        assert len(list(study.folder.glob("*.nc"))) == 3
    assert [*find_differences(tmp_path / "1" / "out", tmp_path / "2" / "out")] == []


def warn_of_process() -> int:
    warnings.warn("from afar", RuntimeWarning, stacklevel=1)
    return os.getpid()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_warnings_come_back_and_an_exception_ends_all_workers(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_workers(2, tmp_path) as begin:  # noqa: PT012
        with pytest.warns(RuntimeWarning, match="from afar"):
            process = begin(warn_of_process)()
        assert process != os.getpid()
        begin(time.sleep, 600.0)
        (tmp_path / ".half.csv.0123abcd.tmp").touch()
        raise KeyboardInterrupt
    assert not is_running(process)
    assert not list(tmp_path.iterdir())


def end_as_by_the_system() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_the_system_ends_gives_one_sentence_with_a_way_out(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="memory.* --workers 1`"),
        open_workers(2, tmp_path) as begin,
    ):
        begin(end_as_by_the_system)()


SENDING = """
import os, subprocess, sys
from pathlib import Path
from equivocal.paper import load_study, prepare
from equivocal.workers import count_workers, open_workers

with open_workers(2, Path(sys.argv[1])) as begin:
    from tests.multiverse.test_workers import end_while_sending
    wait = begin(end_while_sending, os.getpid())
    assert len(wait()) == 1 << 20
"""


def end_while_sending(parent: int) -> bytes:
    """Return more than a pipe holds, and die while the parent cannot read."""
    os.kill(parent, signal.SIGSTOP)
    later = f"sleep 2; kill -KILL {os.getpid()}; kill -CONT {parent}"
    subprocess.Popen(["sh", "-c", later])
    return bytes(1 << 20)


def test_a_worker_that_ends_while_it_sends_a_large_result_is_not_waited_for(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", SENDING, str(tmp_path)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
    assert not list(tmp_path.iterdir())


def test_the_time_is_announced_before_any_work(
    small_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = made(tmp_path, small_run)
    (study.folder / "posteriors").touch()  # where a folder is to be
    with pytest.raises(UserError, match="cannot write to .*posteriors"):
        studies.run_study(tmp_path / "source" / "study.toml", study.folder)
    assert "this takes a minute or two on 1 core of a server" in capsys.readouterr().err


def test_the_estimate_asks_by_key_what_is_missing(small_run: Run, tmp_path: Path) -> None:
    study = made(tmp_path, small_run)
    trained = studies.estimate_seconds(study)
    study.infer(quiet)
    sampled = studies.estimate_seconds(study)
    study.probe(quiet)
    assert studies.estimate_seconds(study) == 0 < sampled < trained

    for record in (study.folder / "records").rglob("*.json"):  # as if other code had made them
        known = json.loads(record.read_text())
        record.write_text(json.dumps(known | {"key": "0" * 16}))
    stale = studies.estimate_seconds(study)
    assert stale > trained
    empty = made(tmp_path / "empty", small_run)
    (empty.folder / "records" / "networks.json").unlink()
    assert studies.estimate_seconds(empty) == stale


def test_a_whole_study_is_announced_with_its_minutes_and_takes_several_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = prepare(load_study("paper"), tmp_path)
    seconds = studies.estimate_seconds(study)
    assert seconds == 2 * studies.TRAINING + studies.OTHER + sum(studies.PARTS.values())
    for workers in (1, 2):
        assert studies._announce_time(study, workers) == workers
    assert studies._announce_time(study, None) == count_workers()
    said = " ".join(capsys.readouterr().err.split())
    assert "about 17 minutes on 1 core of" in said
    assert "about 12 minutes on 2 cores of" in said
