"""The scripts of docs/examples run as they are, and the docs show what they print.

PyTorch is no part of the development tools, so what needs it is skipped where it is missing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8")


def without_numbers(text: str) -> str:
    """Words alone: last digits differ between processors."""
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?", "#", text)).strip()


def run(arguments: list[str], folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONIOENCODING": "utf-8"},
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.longer
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_example_runs_and_prints_what_the_page_shows(script: Path, tmp_path: Path) -> None:
    uses_torch = "import torch" in script.read_text(encoding="utf-8")
    if uses_torch:
        needs("torch")
    written = tmp_path / ("numbers.csv" if uses_torch else "picture.png")
    printed = run([str(script), str(written)], tmp_path)
    assert written.stat().st_size > 100
    assert "converged" in printed
    assert "do not trust" not in printed
    shown = re.search(rf"```text\n\$ python docs/examples/{script.name}\n(.*?)```", PAGE, re.DOTALL)
    assert shown, "the page should show what the example prints"
    lines = {without_numbers(line) for line in printed.splitlines()}
    for line in shown[1].splitlines():
        assert without_numbers(line) in lines, line


def test_every_example_is_on_the_page() -> None:
    for script in EXAMPLES:
        assert f"(examples/{script.name})" in PAGE


@pytest.mark.longer
def test_blocks_of_the_page_that_need_pytorch(tmp_path: Path) -> None:
    """They are marked `py`, so that test_docs.py leaves them alone."""
    needs("torch")
    (block,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (data,) = re.findall(
        r"^(from sklearn.datasets .*?^scaled = [^\n]*)", PAGE, re.DOTALL | re.MULTILINE
    )
    expected = re.findall(r"print\(.*?\)  # (.*)", block)
    script = tmp_path / "block.py"
    script.write_text(f"{data}\n{block}", encoding="utf-8")
    assert run([str(script)], tmp_path).splitlines() == expected
