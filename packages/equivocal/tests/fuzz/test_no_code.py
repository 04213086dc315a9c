"""Nothing that is read is ever run: no pickle, no eval, no YAML, and one place that parses."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[4] / "src" / "equivocal"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
NAMES = {"eval", "exec", "compile", "__import__"}
CALLS = {
    *("np.load", "numpy.load", "jnp.load", "jax.numpy.load", "torch.load", "pd.read_pickle"),
    *(
        "pd.read_hdf",
        "importlib.import_module",
        "runpy.run_path",
        "subprocess.getoutput",
        "os.system",
    ),
}
# Parsers are called in `store`, which bounds what they are given; elsewhere on what is ours.
PARSERS = {
    *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "pd.read_csv", "csv.reader"),
    *(
        "safe_open",
        "load_file",
        "xr.open_dataset",
        "xr.load_dataset",
        "gzip.open",
        "gzip.decompress",
    ),
    *("netcdf_file", "np.fromfile", "np.memmap", "np.loadtxt", "np.genfromtxt", "csv.DictReader"),
}
OURS = {
    ("asking/shipped.py", "json.loads"): "a file of the package",
    ("human_data/people.py", "pd.read_csv"): "a file of the package",
    ("cli/doctor.py", "json.loads"): "what our own process printed",
    ("experiments/grids.py", "pd.read_csv"): "tables that our own workers wrote",
    ("study/activations.py", "xr.load_dataset"): "after check_netcdf",
    ("study/grids.py", "tomllib.loads"): "a value of the command line",
    ("study/settings.py", "tomllib.loads"): "a value of the command line",
    ("study/multiverse.py", "pd.read_csv"): "tables that our own workers wrote",
}


def calls(path: Path) -> Iterator[str]:
    """Names of what a file calls, as they are written."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_runs_what_it_reads(path: Path) -> None:
    assert not MODULES & set(imports(path))
    assert not (NAMES | CALLS) & set(calls(path))
    assert "allow_pickle" not in path.read_text(encoding="utf-8")


def test_files_are_parsed_in_one_place() -> None:
    """A new reader goes through `equivocal.store`, or says here why it need not."""
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in FILES
        if "store" not in path.relative_to(SOURCE).parts
        for name in PARSERS & set(calls(path))
    }
    assert found == set(OURS)
