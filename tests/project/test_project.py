"""Promises about the package as a whole."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_module_says_what_it_is_for_and_what_it_offers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "no module docstring"
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    has_definitions = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body)
    assert "__all__" in names or not has_definitions


def test_sampling_needs_only_jax_and_numpy() -> None:
    """It is imported where nothing else of ours is installed."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pydantic", "pandas", "xarray", "equinox", "optax", "typer",
                                  "rich", "matplotlib", "safetensors", "tomli_w", "jaxtyping"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import equivocal.sampling
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for requirement in wanted:
        assert re.match(r"[\w.-]+", requirement)[0].lower() in pinned, requirement


def test_a_stranger_is_not_told_where_this_was_made() -> None:
    for name in ("constraints.txt", "Makefile", "README.md", "pyproject.toml", ".ci/run"):
        text = (ROOT / name).read_text()
        assert "://" not in text.replace("https://semver.org", ""), name
        assert str(ROOT.parent) not in text, name
