"""README, docs and the pages of benchmarks: blocks are executed, links and commands are checked.

Blocks of one page run in order in one temporary folder and one namespace; what a page shows is
compared with what is printed. Commands of `make` are checked against the Makefile instead: the
tests are themselves run by one of them. Of `text` blocks, commands and options must exist.
"""

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from scripts.count_words import ROOT, count_words

from equivocal.cli import build_app
from needs import needs

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "benchmarks").glob("*.md"))
# pages that train or sample for more than ten seconds: `make test-longer`, and `.ci/run`
LONG = {"ask", "doubt", "german", "measures", "posterior", "reproduce", "runs", "sampling"}
LONG |= {"tutorial", "worlds"}
NEEDED = {"english": "language model", "posterior": "transformers"}
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:equivocal|python) (?:.*\\\n)*.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")
SLOW = [
    page for page in PAGES if re.search(r"^```\w+ slow$", page.read_text("utf-8"), re.MULTILINE)
]


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
    start = ["-m", "equivocal"] if program == "equivocal" else [str(ROOT / arguments.pop(0))]
    assert program in {"equivocal", "python"}, f"unknown program in documentation: {line}"
    result = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
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
    """Blocks marked `slow` are left out unless asked for; tables of examples are at hand."""
    namespace: dict[str, object] = {}
    for table in (ROOT / "docs" / "examples").glob("*.csv"):
        shutil.copy(table, folder)
    for language, note, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if "slow" in note and not slow:
            continue
        if language == "console":
            run_console(body, folder, expected=2 if "fails" in note else 0)
        elif language == "python":
            run_python(body, namespace, page)
        elif language == "toml":
            tomllib.loads(body)
        else:
            assert language == "text", f"{page.name}: a block without a mark"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=pytest.mark.longer if page.stem in LONG else (), id=name_page(page)
        )
        for page in PAGES
    ],
)
def test_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.stem in NEEDED:
        needs(NEEDED[page.stem])
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=name_page)
def test_slow_blocks_run_too(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, slow=True)


@pytest.mark.longer
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "cache"))
    assert "by hand 0.477" in run_command("python docs/notebooks/talk.py", tmp_path, 0)


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_commands_and_options_exist(page: Path) -> None:
    """Those that are shown in blocks; some take too long to be run."""
    for language, _, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in COMMAND.findall(body) if language in {"text", "console"} else ():
            program, *words = shlex.split(line.replace("\\\n", " "), comments=True)
            if program == "equivocal":
                check_options(words, line)
            elif words[0] == "-m":
                assert find_spec(words[1]), line
            else:
                assert (ROOT / words[0]).is_file(), line


def check_options(words: list[str], line: str) -> None:
    """Assert that the command line has a command and its options."""
    if "--english" in words:  # `ask --english` is `english ask`
        words = ["english", *(word for word in words if word != "--english")]
    command = typer.main.get_command(build_app())
    while hasattr(command, "commands"):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    known = {name for parameter in command.params for name in parameter.opts}
    known |= {name for parameter in command.params for name in parameter.secondary_opts}
    assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    """Anchors too, by the headings of the page."""
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            place = (page.parent / target).resolve() if target else page
            assert place.exists(), target
            if anchor:
                assert anchor in list_anchors(place), f"{target}{anchor}"


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", head.lower()) for head in heads)
    return {f"#{head.replace(' ', '-')}" for head in plain}


def test_docs_are_short() -> None:
    words = count_words()
    assert words["README.md"] <= 600
    assert sum(words.values()) <= 30_000
    assert len(words) <= 18
    long = {name for name, number in words.items() if number > 2_500}
    assert long <= {"docs/explanations/maths.md"}


def test_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "maintainers" / "architecture.md").read_text(encoding="utf-8")
    sources = [ROOT, *ROOT.glob("packages/*/src"), *ROOT.glob("packages/*/src/*")]
    for name in re.findall(r"`([\w/]+/\w+\.(?:py|toml|csv))`", text):
        if "NAME" not in name:
            assert any((source / name).exists() for source in sources), name
