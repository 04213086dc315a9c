"""Generate the pages of the site that come from the source; a hook of ProperDocs.

    reference/lastlayer.md   the modules of `lastlayer`, from their docstrings (mkdocstrings)
    reference/ROOM.md        the modules of each folder of `equivocal`
    reference/equivocal.md   the modules beside these folders
    reference/commands.md    every command and option, from the command line itself
    reference/world_file.md, settings.md, measures.md    from the code (docs/tools/keys.py)
    changelog.md, contributing.md, benchmarks/           copied from the repository
    page.html                what `equivocal page` writes

The hook also rewrites what is right in the repository but wrong on the site: links that lead out of
docs/, and the notes after a code block's language (`console fails`), which are meant for the tests.
Names of modules and of generated pages become links. Change `ORDER` to reorder the reference.
"""

import os.path
import re
import sys
from pathlib import Path

import typer
from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page
from typer.cli import get_docs_for_click

from equivocal.asking.page import build_page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # ProperDocs loads this file alone

from docs.tools.keys import describe_measures, describe_settings, describe_world_file  # noqa: E402

__all__ = ["on_config", "on_files", "on_page_markdown"]

SOURCES = {name: ROOT / "packages" / name / "src" / name for name in ("lastlayer", "equivocal")}
ORDER = ["lastlayer", "world", "network", "paper", "asking"]  # then the others, by name
COMMANDS = {"cli", "command"}  # described by their commands, not by their modules
COPIED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
COPIED |= {
    f"benchmarks/{path.name}": f"benchmarks/{path.name}" for path in ROOT.glob("benchmarks/*.md")
}
MODULE = re.compile(r"(?<!\[)`((?:equivocal|lastlayer)(?:\.\w+)+)`")
GENERATED = re.compile(r"`reference/(\w+)\.html`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Add the rooms' pages to the navigation."""
    (reference,) = [entry["Reference"] for entry in config.nav or [] if "Reference" in entry]
    reference += [{name: f"reference/{name}.md"} for name in list_rooms()]
    return config


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add the generated pages, and the repository's files that pages link to."""
    rooms = list_rooms() | {"equivocal": SOURCES["equivocal"]}
    pages = {f"reference/{name}.md": describe_room(name, rooms[name]) for name in rooms}
    pages["reference/commands.md"] = describe_commands()
    pages["reference/world_file.md"] = describe_world_file()
    pages["reference/settings.md"] = describe_settings()
    pages["reference/measures.md"] = describe_measures()
    pages |= {uri: (ROOT / name).read_text(encoding="utf-8") for name, uri in COPIED.items()}
    pages["page.html"] = build_page()
    texts = {f"docs/{page.src_uri}": page.content_string for page in files.documentation_pages()}
    texts |= {name: pages[uri] for name, uri in COPIED.items()}
    linked = {
        _find_target(name, link) for name, text in texts.items() for link in LINK.findall(text)
    }
    for target in sorted(linked):
        if not target.startswith("docs/") and target not in COPIED:
            files.append(
                File.generated(config, f"source/{target}", abs_src_path=str(ROOT / target))
            )
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Link modules and copied files, and drop the notes that code blocks carry for the tests."""
    del config, files
    uri = page.file.src_uri
    plain = re.sub(r"^(```\w+) \w+$", r"\1", markdown, flags=re.MULTILINE)
    if uri.startswith("reference/"):
        return plain
    plain = MODULE.sub(lambda name: _link_module(name[1]), plain)
    up = os.path.relpath("reference", os.path.dirname(uri) or ".")
    plain = GENERATED.sub(rf"[reference/\1]({up}/\1.md)", plain)
    origin = {place: name for name, place in COPIED.items()}.get(uri, f"docs/{uri}")
    return LINK.sub(lambda link: f"]({_relocate(origin, uri, link[1])}", plain)


def list_rooms() -> dict[str, Path]:
    """Return the folders that have a page, by name, those of the data flow first."""
    folders = {path.parent.name: path.parent for path in SOURCES["equivocal"].glob("*/*.py")}
    folders["lastlayer"] = SOURCES["lastlayer"]
    return {name: folders[name] for name in (*ORDER, *sorted(set(folders) - set(ORDER)))}


def describe_room(name: str, folder: Path) -> str:
    """Return a page: what the package says of itself, then its modules."""
    package = name if name in SOURCES else f"equivocal.{name}"
    search = folder.glob("*.py") if name == "equivocal" else folder.rglob("*.py")
    modules = sorted(path for path in search if path.stem not in {"__init__", "__main__"})
    names = [
        ".".join([package, *path.relative_to(folder).with_suffix("").parts]) for path in modules
    ]
    head = f"::: {package}\n    options: {{heading_level: 1, members: false}}\n\n"
    if not (folder / "__init__.py").read_text(encoding="utf-8"):
        head = f"# {package}\n\n"
    described = [name for name in names if name.rpartition(".")[2] not in COMMANDS]
    return head + "\n\n".join(f"::: {name}" for name in described)


def describe_commands() -> str:
    """Return the help of every command, as `--help` prints it."""
    from equivocal.cli import build_app

    command = typer.main.get_command(build_app())
    context = typer.Context(command)
    text = get_docs_for_click(obj=command, ctx=context, name="equivocal", title="The command line")
    # Each group begins with a truncated list of its commands; the table of contents has them whole.
    return re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n", "", text)


def _link_module(name: str) -> str:
    """Link a module that exists and is part of the reference."""
    package, *parts = name.split(".")
    path = SOURCES[package].joinpath(*parts)
    is_described = path.with_suffix(".py").exists() and parts[-1] not in COMMANDS
    return f"[`{name}`][{name}]" if is_described else f"`{name}`"


def _find_target(origin: str, link: str) -> str:
    """Return the place in the repository to which a page's link leads."""
    return os.path.normpath(os.path.join(os.path.dirname(origin), link))


def _relocate(origin: str, uri: str, link: str) -> str:
    """Return a link of a page of the repository as it is right on the site."""
    target = _find_target(origin, link)
    place = COPIED.get(target) or target.removeprefix("docs/")
    place = place if place != target or target in COPIED else f"source/{target}"
    return os.path.relpath(place, os.path.dirname(uri) or ".")
