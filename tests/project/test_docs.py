"""README and docs are executed: every `equivocal` command and every block of Python.

Blocks of one page run in order in one temporary folder and one namespace. Commands of `make` are
checked against the Makefile instead: the tests are themselves run by one of them.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_command(line: str, folder: Path, expected: int) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [argument for argument in arguments if "=" not in argument]
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
        return
    if program == "pip":
        return
    assert program == "equivocal", f"unknown program in documentation: {line}"
    result = subprocess.run(
        [sys.executable, "-m", "equivocal", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "COLUMNS": "120"},
        timeout=300,
        check=False,
    )
    assert result.returncode == expected, f"{line}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    for language, note, body in blocks:
        if language == "console":
            for line in re.findall(r"^\$ (.+)$", body, re.MULTILINE):
                run_command(line, tmp_path, expected=2 if "fails" in note else 0)
        elif language == "python":
            exec(compile(body, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
