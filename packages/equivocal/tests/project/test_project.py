"""Promises about the package as a whole."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[4]
MODULES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no module docstring"


def test_packages_import_from_each_other_only_what_is_exported() -> None:
    """A name that another package imports is in the `__all__` of its module."""
    trees = {_name_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    exported = {name: _read_exports(tree) for name, tree in trees.items()}
    crossing = [
        (node.module, alias.name)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in trees
        if node.module.split(".")[1:2] != name.split(".")[1:2]
        for alias in node.names
        if f"{node.module}.{alias.name}" not in trees
    ]
    assert len(crossing) > 400
    assert not {pair for pair in crossing if pair[1] not in exported[pair[0]]}


def _name_module(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _read_exports(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_no_modules_import_each_other() -> None:
    """Imports inside functions count, too; those for type checkers alone do not."""
    graph = grimp.build_graph("equivocal", exclude_type_checking_imports=True, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()  # names the cycle, where there is one


def test_type_checkers_see_every_public_name() -> None:
    """Names that are imported when first used stand among the imports for type checkers, too."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if "_HOME = {" in text:
            tree = ast.parse(text)
            imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            seen = {alias.asname or alias.name for node in imported for alias in node.names}
            missing = set(_read_exports(tree)) - seen - {"__version__"}
            assert not {name for name in missing if f"def {name}" not in text}, path


def test_picture_of_the_architecture_names_every_package_of_the_import_rules() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = " ".join(contracts["contracts"][0]["layers"])
    picture = ElementTree.parse(ROOT / "docs" / "images" / "architecture.svg").getroot()
    names = [part.text or "" for part in picture.iter() if part.get("class") == "name"]
    named = re.findall(r"\w+", " ".join(names))
    assert set(re.findall(r"equivocal\.(\w+)", layers)) <= set(named)


def test_sampling_needs_only_jax_and_numpy() -> None:
    """It must import where nothing else is installed: it may load only what those two load."""
    code = "import sys, jax, numpy; before = set(sys.modules); from lastlayer import *; "
    code += "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = set(result.stdout.split()) - sys.stdlib_module_names
    assert loaded <= {"equivocal", "jax", "jaxlib", "numpy"}


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    everything = ("arviz", "cluster", "model", "nuts", "sklearn", "web")
    assert f"equivocal[{','.join(everything)}]" in extras["dev"]
    listed = [project["dependencies"], extras["dev"], *(extras[name] for name in everything)]
    wanted = [each for part in listed for each in part if not each.startswith("equivocal[")]
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for requirement in wanted:
        assert re.match(r"[\w.-]+", requirement)[0].lower() in pinned, requirement


def test_no_file_names_a_machine_or_holds_a_placeholder() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    for name in listed or ["README.md", "constraints.txt", "Makefile"]:
        path = ROOT / name
        if path.suffix in {".npz", ".png", ".svg"} or not path.is_file():
            continue
        errors = "replace" if path.suffix == ".safetensors" else "strict"  # its header is text
        text = path.read_text(encoding="utf-8", errors=errors)
        assert f"{ROOT.parent}/" not in text, name
        if path.suffix == ".md":
            assert not re.search(r"^[A-Z]{6,}$", text, re.MULTILINE), name


def test_no_test_patches_our_own_code() -> None:
    """Only what belongs to Python itself may be patched, and its module must be named."""
    patched = [
        f"{path.name}: {ast.unparse(call)}"
        for path in (ROOT / "tests").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("setattr", "delattr")
        if not re.match(r"'?(sys|os|warnings)\b", ast.unparse(call.args[0]))
    ]
    assert not patched
