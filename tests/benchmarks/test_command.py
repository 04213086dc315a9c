"""`python -m benchmarks.sampling` in real processes, at small sizes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equivocal.gestalt import Run

FACTS = {"cpu", "cores", "device", "system", "load_average", "versions", "commit"}
pytestmark = pytest.mark.slow  # whole benchmarks from the command line; `make test-longer`

SMALL = ["--quick", "--only"]
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"COLUMNS": "160", "NO_COLOR": "1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.sampling", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | own,
        timeout=300,
        check=False,
    )


def fails(*arguments: object, cwd: Path | None = None) -> str:
    """Return the error message about a user's mistake."""
    result = run(*arguments, cwd=cwd)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the printed table, and the path of the file."""
    folder = tmp_path_factory.mktemp("bench")
    options = ["sklearn", "--only", "literal", "--json", "b.json"]
    result = run(*SMALL, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout, folder / "b.json"


def test_table_names_ours_theirs_ratio_and_goal(written: tuple[str, Path]) -> None:
    table, _ = written
    header = next(line for line in table.splitlines() if "what" in line)
    for name in ("ours", "theirs", "ratio", "goal"):
        assert name in header
    for piece in ("lbfgs", "first call", "second call", "newton-cholesky", "literal N×N step"):
        assert piece in table
    assert "NUTS" not in table
    assert "not judged" in table
    assert "wrote b.json" in table


def test_file_holds_numbers_settings_and_machine(written: tuple[str, Path]) -> None:
    content = json.loads(written[1].read_text(encoding="utf-8"))
    assert content["machine"].keys() == FACTS
    assert content["machine"]["versions"]["scikit-learn"] != "not installed"
    assert content["settings"]["rows"] == 400
    assert content["source"] == "made-up rows"
    assert list(content["sections"]) == ["sklearn", "literal"]
    first, second, *others = content["sections"]["sklearn"]["lines"]
    assert first["ours"] > second["ours"] > 0  # the first call compiles
    assert all(line["ratio"] == line["theirs"] / line["ours"] for line in [first, second, *others])
    assert [line["goal"] is None for line in others] == [True, True, True]
    assert content["sections"]["sklearn"]["details"]["equivocal"]["converged"]
    _, same = content["sections"]["literal"]["lines"]
    assert same["verdict"] == "met"


def test_json_can_go_to_standard_output() -> None:
    result = run(*SMALL, "linearity", "--json", "-")
    assert result.returncode == 0, result.stderr
    (section,) = json.loads(result.stdout)["sections"].values()
    assert all(line["ours"] is not None for line in section["lines"])
    for size in section["details"]["sizes"]:
        assert 0 < size["peak_bytes"] < 1 << 30
    assert "memory beyond inputs" in result.stderr  # the table


def test_rows_can_come_from_a_run(small_run: Run, tmp_path: Path) -> None:
    small_run.save(tmp_path / "mine")
    result = run(*SMALL, "literal", "--run", "mine", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Speed on the features of mine" in result.stdout
    assert "D = 21" in result.stdout  # 20 hidden units and a bias


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("mine")
    message = fails(*SMALL, "literal", "--json", "b.json", cwd=tmp_path)
    assert "b.json exists already" in message
    assert (tmp_path / "b.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "sklern"], "there is no comparison named 'sklern': did you mean 'sklearn'?"),
        (["--quick", "--full"], "--quick and --full exclude each other"),
        (["--nuts-outputs", "0"], "Invalid value for '--nuts-outputs'"),
        (["--quick", "--only", "literal", "--run", "no/such"], "no/such"),
        (["--quick", "--json", "/proc/no/b.json"], "cannot write to /proc/no"),
        (["--fast"], "No such option"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(options: list[str], message: str) -> None:
    assert message in fails(*options)


def test_help_has_examples() -> None:
    text = run("--help").stdout
    assert "Example" in text
    for option in ("--quick", "--full", "--only", "--json", "--run", "--nuts-outputs"):
        assert option in text
