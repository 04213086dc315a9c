"""Tests that need more than the extra `dev` skip themselves, are counted, and run in `.ci/run`."""

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.check_skips import find_faults, read_skips

from needs import NEEDS

ROOT = Path(__file__).resolve().parents[4]
LACKED = {f"test_{name}": f"need {NEEDS[name].advice}" for name in ("torch", "browser", "node")}


def test_without_pytorch_and_node(tmp_path: Path) -> None:
    """In a worker, too; doctests are looked for in all modules but that of PyTorch."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None\n")
    variables = {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src"), str(ROOT)]),
        "EQUIVOCAL_SKIPPED": str(tmp_path / "skipped"),
    }
    places = ["src/equivocal/sampling", "tests/benchmarks/test_torch_reference.py"]
    places += ["tests/web/test_bundle.py", "tests/project/test_site.py"]
    chosen = "both_take_the_same_steps or modules_keep_their_own or formulas_can_be_set"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", *places, "-k", chosen],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    node, torch = LACKED["test_node"], LACKED["test_torch"]
    assert f"\nskipped: 2 {node}; 1 {torch}\n" in done.stdout
    assert sorted(read_skips(tmp_path / "skipped").values()) == [node, node, torch]


def test_nothing_is_skipped_for_good() -> None:
    assert find_faults(LACKED, {}) == []
    listed = f"need {NEEDS['references'].advice}"
    assert find_faults(LACKED | {"test_other": listed}, {"test_other": listed}) == []
    for reason in ("need a reason", LACKED["test_torch"]):
        (fault,) = find_faults(LACKED, {"test_torch": reason})
        assert "never ran: test_torch" in fault
    (fault,) = find_faults({"test_torch": LACKED["test_torch"], "x": LACKED["test_node"]}, {})
    assert fault.startswith("was there at first: need a browser")


def test_only_needs_skip() -> None:
    """Or the summary would not say what to install."""
    skips = re.compile(r"importorskip\(|mark\.skip|\bpytest\.skip\(")
    files = [path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)]
    assert [path.name for path in files if skips.search(path.read_text("utf-8"))] == ["needs.py"]
