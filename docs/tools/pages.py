"""Generate the pages of the site that come from the source; a hook of ProperDocs.

    reference/PACKAGE.md     every package of `equivocal`, from its docstrings (mkdocstrings)
    reference/equivocal.md   the modules that belong to no package
    reference/commands.md    every command and option, from the command line itself
    changelog.md, contributing.md    copied from the top of the repository
    page.html                what `equivocal page` writes, which try.md shows

The hook also rewrites what is right in the repository but wrong on the site: links that lead out of
docs/, and the notes after a code block's language (`console fails`), which are meant for the tests.
Module names become links to the reference. Change `ORDER` to reorder the reference.
"""

import ast
import re
from pathlib import Path

import typer
from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page
from typer.cli import get_docs_for_click

from equivocal.asking.page import build_page

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "equivocal"
ORDER = ["world", "gestalt", "sampling", "study", "suites", "report"]  # then the others, by name
COMMANDS = "cli"  # described by its commands, not by its modules
TOP_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
MODULE = re.compile(r"(?<!\[)`(equivocal(?:\.\w+)+)`")
OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)")  # a link from docs/ to elsewhere in the repository


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Add the packages' pages to the navigation."""
    (reference,) = [entry["Reference"] for entry in config.nav or [] if "Reference" in entry]
    reference += [{f"equivocal.{name}": f"reference/{name}.md"} for name in list_packages()]
    return config


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add the generated pages, and the repository's files that pages link to."""
    texts = [page.content_string for page in files.documentation_pages()]
    for target in {found for text in texts for found in OUTSIDE.findall(text)} - {*TOP_PAGES}:
        path = str(ROOT / target)
        files.append(File.generated(config, _locate_on_site(target), abs_src_path=path))
    pages = {f"reference/{name}.md": describe_package(name) for name in list_packages()}
    pages["reference/equivocal.md"] = describe_top_modules()
    pages["reference/commands.md"] = describe_commands()
    for name in TOP_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        pages[name.lower()] = text.replace("](docs/", "](")
    pages["page.html"] = build_page()
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Link modules and copied files, and drop the notes that code blocks carry for the tests."""
    del config, files
    plain = re.sub(r"^(```\w+) \w+$", r"\1", markdown, flags=re.MULTILINE)
    if not page.file.src_uri.startswith("reference/"):
        plain = MODULE.sub(lambda name: _link_module(name[1]), plain)
    return OUTSIDE.sub(lambda link: f"]({_locate_on_site(link[1])}", plain)


def list_packages() -> list[str]:
    """Return the names of all packages, those of the data flow first."""
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {COMMANDS}
    return [name for name in ORDER if name in found] + sorted(found.difference(ORDER))


def describe_package(package: str) -> str:
    """Return a package's page: what it exports, then its modules, those of the exports first."""
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.name: f"{node.module}"
        for node in ast.walk(tree)  # also those for type checkers alone
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    name = f"equivocal.{package}"
    exported = _read_exports(tree)
    own = [export for export in exported if export not in imported]
    own_modules = (imported[export] for export in exported if export in imported)
    modules = dict.fromkeys(module for module in own_modules if module.startswith(name))
    modules |= dict.fromkeys(_list_modules(PACKAGE / package))
    links = [_link_export(imported.get(export, name), export) for export in exported]
    head = f"::: {name}\n    options: {{heading_level: 1, members: {own}}}\n\n"
    summary = f"From `{name}` you import {', '.join(links)}.\n\n" if links else ""
    return head + summary + "\n\n".join(f"::: {module}" for module in modules)


def describe_top_modules() -> str:
    """Return the page of the package itself and of the modules beside its packages."""
    head = "::: equivocal\n    options: {heading_level: 1, members: false}\n\n"
    stems = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_"))
    return head + "\n\n".join(f"::: equivocal.{stem}" for stem in stems)


def describe_commands() -> str:
    """Return the help of every command, as `--help` prints it."""
    from equivocal.cli import build_app

    command = typer.main.get_command(build_app())
    context = typer.Context(command)
    text = get_docs_for_click(obj=command, ctx=context, name="equivocal", title="The command line")
    # Each group begins with a truncated list of its commands; the table of contents has them whole.
    return re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n", "", text)


def _list_modules(folder: Path) -> list[str]:
    """Return the dotted names of a package's modules; a subpackage comes before its modules."""
    modules = []
    for path in sorted(folder.rglob("*.py")):
        module = path.parent if path.stem == "__init__" else path.with_suffix("")
        if module != folder and not module.name.startswith("_"):
            modules.append(".".join(module.relative_to(ROOT / "src").parts))
    return modules


def _read_exports(tree: ast.Module) -> list[str]:
    """Return the names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _link_export(module: str, name: str) -> str:
    """Link a class or function; constants have no docstring, hence no place in the reference."""
    path = ROOT / "src" / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    defined = re.search(rf"^(class|def) {name}\b", source.read_text(encoding="utf-8"), re.MULTILINE)
    return f"[`{name}`][{module}.{name}]" if defined else f"`{name}`"


def _link_module(name: str) -> str:
    """Link a module that exists and is part of the reference."""
    path = ROOT / "src" / name.replace(".", "/")
    exists = path.is_dir() or path.with_suffix(".py").exists()
    is_described = exists and name.split(".")[1] != COMMANDS
    return f"[`{name}`][{name}]" if is_described else f"`{name}`"


def _locate_on_site(target: str) -> str:
    """Return where the site holds a file of the repository."""
    return target.lower() if target in TOP_PAGES else f"source/{target}"
