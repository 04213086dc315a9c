"""Another version of the code in a process of its own: what it makes again, and what it keeps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import equivocal
from tests.faults.conftest import ENVIRONMENT, results


def change(code: Path, file: str) -> None:
    """Change a source file of a copy of the package, though not what it computes."""
    path = code / "equivocal" / file
    path.write_text(path.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")


def infer(code: Path, out: Path) -> None:
    """Run `equivocal infer` with the code of a copy of the package."""
    path = os.pathsep.join([str(code), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "equivocal", "infer", "--out", str(out)]
    done = subprocess.run(
        command, env=ENVIRONMENT | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_posteriors_of_another_sampler_are_made_again_and_others_are_kept(
    undisturbed: Path, tmp_path: Path
) -> None:
    out, code = tmp_path / "out", tmp_path / "code"
    shutil.copytree(undisturbed, out)
    package = Path(equivocal.__file__).parent
    shutil.copytree(package, code / "equivocal", ignore=shutil.ignore_patterns("__pycache__"))
    files = sorted(out.glob("posteriors/*/*"))
    assert len(files) == 4
    before, made = results(out), [file.stat().st_mtime_ns for file in files]
    change(code, "report/style.py")
    infer(code, out)
    assert [file.stat().st_mtime_ns for file in files] == made
    change(code, "sampling/engine/flow.py")
    infer(code, out)
    again = [file.stat().st_mtime_ns for file in files]
    assert all(new > old for new, old in zip(again, made, strict=True))
    assert results(out) == before  # networks and tables are as they were
