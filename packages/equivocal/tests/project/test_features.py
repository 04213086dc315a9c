"""A feature is a folder: without it and its line in `cli.py`, everything else still works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import equivocal
from equivocal.cli import FEATURES

PACKAGE = Path(equivocal.__file__).parent
CORE = {"world.command", "network.command", "doctor"}
NEEDED_BY = {"paper": {"multiverse"}}  # a grid is one of studies
WORKS = """
import sys
sys.argv = ["equivocal", *sys.argv[1:]]
from equivocal.cli import main
main()
"""


@pytest.mark.parametrize("line", [name for name in FEATURES if name not in CORE])
def test_a_feature_is_removed_with_its_folder_and_its_line(line: str, tmp_path: Path) -> None:
    feature = line.partition(".")[0]
    gone = {feature} | NEEDED_BY.get(feature, set())
    copy = tmp_path / "equivocal"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *gone))
    lines = (copy / "cli.py").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [text for text in lines if not any(f'"{name}.command",' in text for name in gone)]
    assert len(kept) == len(lines) - len(gone)
    (copy / "cli.py").write_text("".join(kept), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    for words in (["--help"], ["world", "check", "paper"]):
        done = subprocess.run(
            [sys.executable, "-c", WORKS, *words],
            env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "in order" in done.stdout
