"""The documentation site: a strict build, complete, that fetches nothing from elsewhere."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer
from docs.tools.keys import SOURCE, read_fields
from docs.tools.pictures import IMAGES, ROOT, load_pictures

from equivocal.cli import build_app
from needs import needs

DOCS = ROOT / "docs"
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
MEGABYTE = 1 << 20


class Parts(HTMLParser):
    """A page's anchors, its links, and what a browser fetches for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect one tag; called by `feed`."""
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(FETCHED.get(tag, "")):
            self.fetched.append(given[FETCHED[tag]])


def build(folder: Path) -> None:
    """Build into `folder`/site; errors go to `folder`/log, or a second worker would wait."""
    program = [sys.executable, "-m", "properdocs", "build", "--strict"]
    result = subprocess.run(
        [*program, "--site-dir", f"{folder}/site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    failed = result.returncode != 0 or "WARNING" in result.stderr
    (folder / "log").write_text(result.stderr if failed else "", encoding="utf-8")


@pytest.fixture(scope="session")
def built(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return the folder of the built site."""
    folder = made_once("built", build)
    log = (folder / "log").read_text(encoding="utf-8")
    assert not log, log
    return folder / "site"


@pytest.fixture(scope="session")
def pages(built: Path) -> dict[Path, Parts]:
    """Return every page of the site."""
    return {path: Parts(path) for path in sorted(built.rglob("*.html")) if path.stem != "404"}


def test_every_link_and_picture_leads_somewhere(pages: dict[Path, Parts]) -> None:
    assert len(pages) > 30
    for path, parts in pages.items():
        for address in [*parts.links, *parts.fetched]:
            split = urlsplit(address)
            if split.scheme in {"http", "https", "mailto", "data"}:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.name}: {address}"
            if split.fragment and target in pages:
                assert unquote(split.fragment) in pages[target].anchors, f"{path.name}: {address}"


def test_nothing_is_fetched_from_elsewhere(built: Path, pages: dict[Path, Parts]) -> None:
    for path, parts in pages.items():
        for address in parts.fetched:
            assert not urlsplit(address).netloc, f"{path.name}: {address}"
    for style in built.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", style.read_text())
        assert not found, style.name


def test_reference_holds_every_public_name_and_command(pages: dict[Path, Parts]) -> None:
    pages_by_room = {
        path.stem: parts for path, parts in pages.items() if path.parent.name == "reference"
    }
    for module in ROOT.glob("packages/*/src/**/*.py"):
        place = module.relative_to(ROOT).with_suffix("").parts[3:]
        if place[-1] in {"cli", "command"} or module.stem.startswith("__"):
            continue
        room = place[1] if len(place) > 2 and place[0] == "equivocal" else place[0]
        names = {".".join([*place, name]) for name in public_names(module)}
        assert names <= pages_by_room[room].anchors, names - pages_by_room[room].anchors
    group = typer.main.get_command(build_app())
    anchors = pages_by_room["commands"].anchors
    assert {f"equivocal-{name}" for name in group.commands} <= anchors


def public_names(module: Path) -> list[str]:
    """Return the classes and functions that a module's `__all__` lists."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    defined = [n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if name in defined]
    return []


def test_every_picture_is_shown_and_has_its_command() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *ROOT.glob("benchmarks/*.md")]
    shown = {
        (page.parent / image).resolve()
        for page in pages
        for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert shown == {path for path in IMAGES.rglob("*") if path.is_file()}
    assert shown == {IMAGES / name for name in load_pictures()}
    assert sum(image.stat().st_size for image in shown) < 2 * MEGABYTE


def test_reference_explains_every_key_of_a_world_and_every_setting() -> None:
    for file, name in (
        ("world/schema.py", "WorldFile"),
        ("network/settings.py", "TrainingSettings"),
    ):
        assert not [field.name for field in read_fields(SOURCE / file, name) if not field.comment]


def test_formulas_can_be_set() -> None:
    """KaTeX sets each of them, in Node.js."""
    needs("node")
    text = (DOCS / "explanations" / "maths.md").read_text("utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    display = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.M | re.S)
    inline = re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", text)
    assert len(display) > 15
    formulas = [(tex, True) for tex in display] + [(tex, False) for tex in inline]
    code = "const [katex, all] = [require(process.argv[1]), JSON.parse(process.argv[2])];"
    code += "const set = ([tex, displayMode]) => "
    code += "katex.renderToString(tex, {strict: 'error', displayMode}); all.forEach(set);"
    katex = str(DOCS / "assets" / "katex" / "katex.min.js")
    result = subprocess.run(
        ["node", "-e", code, katex, json.dumps(formulas)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
