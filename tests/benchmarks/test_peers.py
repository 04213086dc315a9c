"""`python -m benchmarks.peers` on small data sets, and its parts."""

import csv
import gzip
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.comparison.belief_networks import draw_rows, read_bif
from benchmarks.comparison.measures import COLUMNS, measure_cost
from benchmarks.comparison.problem import describe_doubt
from benchmarks.draw_peers import RESULTS, compare, list_tables, load, tabulate

from tests.needs import needs

ROOT = Path(__file__).resolve().parents[2]
BIF = """network unknown {
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable wet {
  type discrete [ 2 ] { dry, wet };
}
variable sprinkler {
  type discrete [ 2 ] { off, on };
}
probability ( wet | rain, sprinkler ) {
  (no, off) 0.9, 0.1;
  (yes, off) 0.4, 0.6;
  (no, on) 0.3, 0.7;
  (yes, on) 0.2, 0.8;
}
probability ( rain ) {
  table 0.75, 0.25;
}
probability ( sprinkler ) {
  table 0.5, 0.5;
}
"""


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "NO_COLOR": "1"},
        timeout=300,
        check=False,
    )


def test_quick_command_writes_the_table(tmp_path: Path) -> None:
    some = ["network", "temperature", "ours", "laplace-diag"]
    options = [word for name in some for word in ("--methods", name)]
    data = ["--data", "yeast", "--data", "digits-labels"]
    done = run("--quick", "--out", tmp_path, "--seeds", 1, *data, *options)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "peers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[: len(COLUMNS)] == list(COLUMNS)
    own = {row["method"]: row for row in rows if row["dataset"] == "digits-labels"}
    for row in own.values():
        assert 0 < float(row["nll"]) < 0.1  # the base rate of a digit has 0.33
        assert 0 <= float(row["ece"]) <= float(row["brier"]) ** 0.5
        assert float(row["predict_s"]) > 0
    # the promise of the automatic prior; no test row takes part in the choice
    assert float(own["ours"]["nll"]) < 1.01 * float(own["network"]["nll"])
    missing = {name: find_spec(name) is None for name in ("river", "laplace")}
    assert ("yeast: skipped, its data come with river" in done.stdout) == missing["river"]
    assert ("laplace-diag: skipped, it needs laplace-torch" in done.stdout) == missing["laplace"]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = run("--quick", "--out", tmp_path, "--data", "yest")
    assert done.returncode == 2
    assert "did you mean 'yeast'?" in done.stderr


def test_draws_of_a_belief_network_follow_its_tables(tmp_path: Path) -> None:
    """Standard errors of the frequencies are below 0.005; the margin is five of them."""
    path = tmp_path / "garden.bif.gz"
    path.write_bytes(gzip.compress(BIF.encode()))
    network = read_bif(path)
    assert set(network.names) == {"rain", "sprinkler", "wet"}
    rows, targets, truth = draw_rows(network, 40_000, np.random.default_rng(0))
    rain, sprinkler, wet = (network.names.index(name) for name in ("rain", "sprinkler", "wet"))
    both = (rows[:, rain] == 1) & (rows[:, sprinkler] == 0)
    assert (truth[both, wet] == 0.6).all()
    assert rows[:, rain].mean() == pytest.approx(0.25, abs=0.025)
    assert targets[both, wet].mean() == pytest.approx(0.6, abs=0.05)
    assert rows[both, wet].mean() == pytest.approx(0.6, abs=0.05)
    # given the parents, the target is independent of the value in the row
    again = np.corrcoef(rows[both, wet], targets[both, wet])[0, 1]
    assert abs(again) < 0.08


def test_members_that_agree_carry_no_information() -> None:
    logits = np.random.default_rng(0).normal(size=(1, 6, 3))
    for classes in (False, True):
        same = describe_doubt(np.repeat(logits, 4, axis=0), classes)
        assert np.allclose(same["information"], 0, atol=1e-12)
        assert np.allclose(same["disagreement"], 0)
        other = describe_doubt(np.concatenate([logits, -logits]), classes)
        assert (other["information"] > 0.01).all()


def test_peak_memory_is_that_of_the_call() -> None:
    needs("linux")  # which alone reports the peak
    _, large = measure_cost(lambda: np.ones(50 * 2**17).sum())  # 50 MB, freed again
    _, small = measure_cost(lambda: np.ones(100).sum())
    assert 45 < large.peak < 80
    assert small.peak < 10


def test_methods_not_worse_than_the_best_are_bold() -> None:
    """A difference of 0.1 from the best is significant at a noise of 0.01, one of 0.001 is not."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=5)
    scores = {"ours": 0.0, "close": 0.001, "worse": 0.1}
    table = pd.DataFrame(
        [
            {"dataset": "d", "method": name, "seed": s, "nll": 1 + shared[s] + add + noise}
            for name, add in scores.items()
            for s, noise in enumerate(rng.normal(scale=0.01, size=5))
        ]
    )
    found = compare(table, "nll", "ours").set_index("method")
    assert found.loc["worse", "difference"] > found.loc["worse", "half"]
    text = tabulate(table, "nll")
    assert [line.count("**") for line in text.splitlines()[2:]] == [2, 2, 0]


def test_recorded_posteriors_are_never_worse_than_their_networks() -> None:
    """They are at most 1 % worse in every data set and seed, and much better if overfitted."""
    table = pd.read_csv(RESULTS / "peers.csv")
    nll = table.pivot_table(index=["dataset", "seed"], columns="method", values="nll")
    ratio = nll["ours"] / nll["network"]
    assert ratio.count() >= 31  # classes have not been measured with exact draws
    assert ratio.max() <= 1.01
    assert ratio["yeast-overfitted"].max() < 0.6


def test_the_page_shows_the_recorded_tables() -> None:
    page = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    missing = [name for name, text in list_tables(load()).items() if text not in page]
    assert not missing, f"python -m benchmarks.draw_peers prints other tables: {missing}"
