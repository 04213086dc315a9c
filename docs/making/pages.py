"""Pages of the site that are made from the source whenever it is built; a hook of MkDocs.

    reference/ROOM.md        every room of the package, from its docstrings by mkdocstrings
    reference/equivocal.md   the modules that are no rooms
    reference/commands.md    every command and option, from the command line itself
    changelog.md, contributing.md    from the top of the repository

It also mends what is right in a repository and wrong on a site: links that lead out of docs/, and
the notes behind the language of a block (`console fails`) that are meant for the tests. Names of
modules become links to the reference.
"""

import ast
import re
from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "equivocal"
FIRST = ["world", "gestalt", "sampling", "study", "suites", "report"]  # as data flows; then by name
FRONT = "cli"  # has a page of its own kind
TOP_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
MODULE = re.compile(r"(?<!\[)`(equivocal(?:\.\w+)+)`")
OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)")  # a link from docs/ to elsewhere in the repository


def rooms() -> list[str]:
    """Every room that is there, those of the data flow first."""
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {FRONT}
    return [name for name in FIRST if name in found] + sorted(found.difference(FIRST))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The rooms' pages into the navigation."""
    (reference,) = [entry["Reference"] for entry in config.nav or [] if "Reference" in entry]
    reference += [{f"equivocal.{room}": f"reference/{room}.md"} for room in rooms()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The made pages, and files of the repository that pages link to."""
    pages = [page.content_string for page in files.documentation_pages()]
    for target in {found for text in pages for found in OUTSIDE.findall(text)}.difference(
        TOP_PAGES
    ):
        path = str(ROOT / target)
        files.append(File.generated(config, _on_site(target), abs_src_path=path))
    made = {f"reference/{room}.md": room_page(room) for room in rooms()}
    made["reference/equivocal.md"] = top_page()
    made["reference/commands.md"] = commands_page()
    for name in TOP_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        made[name.lower()] = text.replace("](docs/", "](")
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to copies of files and to modules, and blocks without the notes for tests."""
    del config, files
    plain = re.sub(r"^(```\w+) \w+$", r"\1", markdown, flags=re.MULTILINE)
    if not page.file.src_uri.startswith("reference/"):
        plain = MODULE.sub(lambda name: _linked(name[1]), plain)
    return OUTSIDE.sub(lambda link: f"]({_on_site(link[1])}", plain)


def _linked(name: str) -> str:
    path = ROOT / "src" / name.replace(".", "/")
    is_there = path.is_dir() or path.with_suffix(".py").exists()
    return f"[`{name}`][{name}]" if is_there and name != f"equivocal.{FRONT}" else f"`{name}`"


def _on_site(target: str) -> str:
    return target.lower() if target in TOP_PAGES else f"source/{target}"


def room_page(room: str) -> str:
    """What the room offers, then its modules: those that it offers something from come first."""
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.name: f"{node.module}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    offered = _offered(tree)
    own = [name for name in offered if name not in imported]
    modules = dict.fromkeys(imported[name] for name in offered if name in imported)
    modules |= dict.fromkeys(
        f"equivocal.{room}.{path.stem}"
        for path in sorted((PACKAGE / room).glob("*.py"))
        if not path.stem.startswith("_")
    )
    place = f"equivocal.{room}"
    places = {name: f"{imported.get(name, place)}" for name in offered}
    links = ", ".join(_link(module, name) for name, module in places.items())
    head = f"::: {place}\n    options: {{heading_level: 1, members: {own}}}\n\n"
    offer = f"From `{place}` you import {links}.\n\n"
    return head + offer + "\n\n".join(f"::: {module}" for module in modules)


def _link(module: str, name: str) -> str:
    """To a class or function; constants have no docstring, hence no place in the reference."""
    path = ROOT / "src" / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    defined = re.search(rf"^(class|def) {name}\b", source.read_text(encoding="utf-8"), re.MULTILINE)
    return f"[`{name}`][{module}.{name}]" if defined else f"`{name}`"


def _offered(tree: ast.Module) -> list[str]:
    """The names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def top_page() -> str:
    """The package itself, and the modules that stand beside the rooms."""
    head = "::: equivocal\n    options: {heading_level: 1, members: false}\n\n"
    stems = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_"))
    return head + "\n\n".join(f"::: equivocal.{stem}" for stem in stems)


def commands_page() -> str:
    """Help of every command, as `--help` has it."""
    from equivocal.cli.app import app

    command = typer.main.get_command(app)
    context = typer.Context(command)
    text = get_docs_for_click(obj=command, ctx=context, name="equivocal", title="The command line")
    # each group begins with a list of its commands, cut short; the table of contents has them whole
    return re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n", "", text)
