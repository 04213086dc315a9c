"""README and docs are executed, and what they show is compared with what is printed.

Blocks of one page run in order in one temporary folder and one namespace. Commands of `make` are
checked against the Makefile instead: the tests are themselves run by one of them.
"""

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from equivocal.network import TrainingSettings
from needs import needs

ROOT = Path(__file__).resolve().parents[4]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# pages that train or sample for more than ten seconds: `make test-longer`, and `.ci/run`
LONG = {"ask", "constructions", "doubt", "german", "people", "sampling", "scaling", "suites"}
LONG |= {"network_flow", "files", "network", "study", "surviving", "tutorial", "worlds"}
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SLOW = [
    page for page in PAGES if re.search(r"^```\w+ slow$", page.read_text("utf-8"), re.MULTILINE)
]


def rough(text: str) -> str:
    """Text to compare by: decimals (trained numbers differ between processors) and blanks aside."""
    return re.sub(r"\s+", " ", re.sub(r"\d+\.\d*(e-?\d+)?", "#", text)).strip()


def run_command(line: str, folder: Path, expected: int) -> str:
    """What a command of the page prints."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [argument for argument in arguments if "=" not in argument]
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
        return ""
    assert program == "equivocal", f"unknown program in documentation: {line}"
    result = subprocess.run(
        [sys.executable, "-m", "equivocal", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "COLUMNS": "80"},
        timeout=600,
        check=False,
    )
    assert result.returncode == expected, f"{line}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def run_console(body: str, folder: Path, expected: int) -> None:
    """Every command exits as it should and prints every line that the page shows below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        printed = {rough(text) for text in run_command(line, folder, expected).splitlines()}
        for text in shown.splitlines():
            if "…" not in text:
                assert rough(text) in printed | {""}, f"$ {line}\ndoes not print: {text}"


def run_python(body: str, namespace: dict[str, object], page: Path) -> None:
    """Statement by statement; `print(…)  # value` must print what its comment begins with."""
    for node in ast.parse(body).body:
        source = ast.get_source_segment(body, node) or ""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module([node], []), str(page), "exec"), namespace)
        comment = body.splitlines()[node.end_lineno - 1].partition("  # ")[2]
        if source.startswith("print(") and comment:
            message = f"{source} prints {printed.getvalue()}"
            assert rough(comment).startswith(rough(printed.getvalue())), message


def run_page(page: Path, folder: Path, *, slow: bool) -> None:
    """Blocks marked `slow` are left out unless asked for."""
    namespace: dict[str, object] = {}
    for language, note, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if "slow" in note and not slow:
            continue
        if language == "console":
            run_console(body, folder, expected=2 if "fails" in note else 0)
        elif language == "python":
            run_python(body, namespace, page)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.longer if page.stem in LONG else (), id=page.name)
        for page in PAGES
    ],
)
def test_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.stem == "english":
        needs("language model")
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.name)
def test_slow_blocks_run_too(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, slow=True)


def test_every_setting_stands_in_the_table_with_its_defaults() -> None:
    text = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
    for field in fields(TrainingSettings):
        row = re.search(rf"^\| `{field.name}` \| (.+?) \| (.+?) \| (.+?) \|", text, re.MULTILINE)
        assert row, field.name
        for cell, recipe in zip(row.groups(), ("fast", "paper", "sg2018"), strict=True):
            value = getattr(TrainingSettings(recipe=recipe), field.name)
            shown = cell.strip("`").replace(",", "")
            read = shown if isinstance(value, str) else tomllib.loads(f"x = {shown}")["x"]
            assert read == value, (field.name, recipe)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
