"""The store: results are found by key, recomputed if damaged, survive kills, can be shared."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from equivocal.store import Store, hash_content, hash_files
from lastlayer.files import UnreadableError
from tests.faults.damage import cut, flip

KEY = hash_content("settings", 1, code=["lastlayer/errors.py"])


class Counted:
    """A result that counts how often it is made and loaded."""

    def __init__(self, text: str = "all of it") -> None:
        self.text, self.made, self.loaded = text, 0, 0

    def make(self) -> str:
        """Count."""
        self.made += 1
        return self.text

    def load(self, path: Path) -> str:
        """Count, and read."""
        self.loaded += 1
        return path.read_text()

    def get(self, store: Store, key: str = KEY, name: str = "tables/scores") -> str:
        """Load it or make it."""
        return store.load_or_make(
            name,
            key,
            ".txt",
            load=self.load,
            make=self.make,
            save=lambda text, p: p.write_text(text),
        )


def test_a_result_is_made_once_and_found_by_any_later_run(tmp_path: Path) -> None:
    result = Counted()
    assert [result.get(Store(tmp_path)) for _ in range(3)] == ["all of it"] * 3
    assert (result.made, result.loaded) == (1, 2)
    assert Store(tmp_path).find("tables/scores", KEY) == [tmp_path / "tables" / "scores.txt"]


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("name", ["tables/scores.txt", "records/tables/scores.json"])
def test_damage_is_named_and_the_result_made_again(
    damage: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    result = Counted()
    result.get(Store(tmp_path))
    damage(tmp_path / name)
    if name.startswith("records") and damage is flip:  # so that it is not JSON any more
        (tmp_path / name).write_text("{" + (tmp_path / name).read_text())
    with pytest.warns(UserWarning, match=f"{name}(: checksum mismatch| is damaged)"):
        assert result.get(Store(tmp_path)) == "all of it"
    assert (result.made, result.loaded) == (2, 0)
    assert result.get(Store(tmp_path)) == "all of it"
    assert (result.made, result.loaded) == (2, 1)


def test_a_file_that_cannot_be_used_is_made_again_with_a_warning(tmp_path: Path) -> None:
    result = Counted()
    result.get(Store(tmp_path))

    def refuse(path: Path) -> str:
        raise UnreadableError(path, "it is from another version")

    result.load = refuse  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=r"scores\.txt: it is from another version"):
        assert result.get(Store(tmp_path)) == "all of it"
    assert result.made == 2


def test_several_files_are_one_result(tmp_path: Path) -> None:
    def work() -> list[Path]:
        paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
        for path in paths:
            path.write_text(path.name)
        return paths

    store = Store(tmp_path)
    assert store.make("both", KEY, work)
    assert not store.make("both", KEY, work)
    assert store.find("both", KEY) == [tmp_path / "a.csv", tmp_path / "b.csv"]
    time.sleep(0.01)  # a checksum is computed again when the time of the file has changed
    (tmp_path / "b.csv").write_text("x.csv")
    assert store.find_damaged("both", "unknown") == [tmp_path / "b.csv"]
    with pytest.warns(UserWarning, match=r"b\.csv: checksum mismatch"):
        assert store.make("both", KEY, work)
    assert store.find_damaged("both") == []


OUTSIDE = ("../x", "/etc/hostname", "a\0b", "C:x")
BAD = ["[" * 10**5, '{"key": 1, "files": []}']
BAD += [json.dumps({"key": KEY, "files": {name: "0"}}) for name in OUTSIDE]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_records_that_are_invalid_or_name_files_elsewhere(text: str, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "r.json").write_text(text)
    with pytest.warns(UserWarning, match=r"r\.json is damaged"):
        assert Store(tmp_path).find("r", KEY) is None


# Says when the file is written and no record is, and waits there to be killed.
HALF_WAY = """
import sys, time
from pathlib import Path
from equivocal.store import Store

class Waiting(Store):
    def record(self, name, key, files):
        assert all(path.exists() for path in files)
        print("half-way", flush=True)
        time.sleep(60)

Waiting(Path("out")).load_or_make(
    "tables/scores", sys.argv[1], ".txt",
    load=Path.read_text, make=lambda: "half of it", save=lambda text, path: path.write_text(text),
)
"""


def test_a_kill_between_file_and_record_makes_it_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HALF_WAY, KEY]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half-way\n"
        process.send_signal(signal.SIGKILL)
    folder = tmp_path / "out"
    assert (folder / "tables" / "scores.txt").read_text() == "half of it"
    result = Counted()
    assert result.get(Store(folder)) == "all of it"
    assert result.made == 1
    assert (folder / "tables" / "scores.txt").read_text() == "all of it"


SHARED = """
import os, sys
from pathlib import Path
from equivocal.store import Store

def make():
    os.close(os.open("made", os.O_CREAT | os.O_EXCL))  # an error the second time
    print("making", flush=True)
    sys.stdin.readline()
    return "all of it"

store = Store(Path("cache"), shared=True)
save = lambda text, path: path.write_text(text)
print(store.load_or_make("x/y", sys.argv[1], ".txt", load=Path.read_text, make=make, save=save))
"""


def test_of_two_processes_one_makes_and_the_other_waits_and_loads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARED, KEY]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    first = subprocess.Popen(command, cwd=tmp_path, text=True, **pipes)
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    second = subprocess.Popen(command, cwd=tmp_path, text=True, **pipes)
    assert second.stderr is not None
    assert f"waiting for process {first.pid}" in second.stderr.readline()
    for process in (first, second):
        assert process.communicate("go on\n", timeout=60) == ("all of it\n", "")
        assert process.returncode == 0
    assert not list((tmp_path / "cache").glob(".*"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_a_store_that_resumes(tmp_path: Path) -> None:
    """At each line of the store; `tests/faults` does the same within libraries, for one file."""
    folder = tmp_path / "out"

    def interrupted(step: int) -> bool:
        left = step

        def trace(frame: FrameType, event: str, _arg: object) -> object:
            nonlocal left
            if f"equivocal{os.sep}store" not in frame.f_code.co_filename:
                return None
            left -= event == "line"
            if left == 0:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            Counted().get(Store(folder))
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    step = 1
    while interrupted(step):
        there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
        assert there <= {"tables/scores.txt", "records/tables/scores.json"}, step
        result = Counted()
        assert result.get(Store(folder)) == "all of it"
        assert result.made + result.loaded == 1
        shutil.rmtree(folder)
        step += 1
    assert step > 30


def test_keys_depend_on_everything_they_are_given(tmp_path: Path) -> None:
    code = ["lastlayer/errors.py"]
    keys = [hash_content(*parts, code=code) for parts in ((), (1,), ("1",), ({"a": 1, "b": 2},))]
    keys.append(hash_content(code=["equivocal/errors.py"]))
    assert len(set(keys)) == 5
    assert hash_content({"b": 2, "a": 1}, code=code) == keys[3]
    (tmp_path / "a").write_text("a")
    before = hash_files(tmp_path / "a")
    (tmp_path / "a").write_text("b")
    assert hash_files(tmp_path / "a") != before
