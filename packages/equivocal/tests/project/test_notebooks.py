"""The example notebooks run from top to bottom, in a process and a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[4] / "docs" / "notebooks"


@pytest.mark.longer
def test_notebook_runs(tmp_path: Path) -> None:
    path = NOTEBOOKS / "talk.py"
    result = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg", "EQUIVOCAL_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "by hand 0.477" in result.stdout
