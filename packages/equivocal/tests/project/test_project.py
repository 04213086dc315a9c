"""Promises about the package as a whole."""

import ast
import re
import subprocess
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[4]
MODULES = sorted(ROOT.glob("packages/*/src/**/*.py"))
PROJECTS = [
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
]


def test_nothing_that_runs_code_from_files_is_imported() -> None:
    """No pickle anywhere, so that opening a file can never run code."""
    forbidden = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
                assert not forbidden & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"eval", "exec"}, path
                assert "allow_pickle" not in {key.arg for key in node.keywords}, path


def test_no_modules_import_each_other() -> None:
    """Imports inside functions count, too; those for type checkers alone do not."""
    graph = grimp.build_graph(
        "equivocal", "lastlayer", exclude_type_checking_imports=True, cache_dir=None
    )
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()  # names the cycle, where there is one


def test_version_is_the_same_everywhere() -> None:
    versions = {project["version"] for project in PROJECTS}
    assert len(versions) == 1
    (version,) = versions
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_pinned() -> None:
    """CUDA's and PyTorch's builds depend on the machine, so that these extras are not pinned."""
    unpinned = {"torch", "jax[cuda13]", "equivocal", "lastlayer", "transformers", "gguf"}
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for project in PROJECTS:
        extras = project.get("optional-dependencies", {}).values()
        for requirement in (
            *project["dependencies"],
            *(each for extra in extras for each in extra),
        ):
            name = re.match(r"[\w.-]+(\[cuda13\])?", requirement)[0].lower()
            assert name in pinned | unpinned, requirement


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
    """Only what belongs to Python itself may be patched, and constants that tune a route."""
    patched = [
        f"{path.name}: {ast.unparse(call)}"
        for path in ROOT.glob("packages/*/tests/**/*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("setattr", "delattr")
        if not re.match(r"'?(sys|os|warnings)\b", ast.unparse(call.args[0]))
        if not re.match(r"'[A-Z_]+'$", ast.unparse(call.args[1]))
    ]
    assert not patched
