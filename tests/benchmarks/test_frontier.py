"""Tables over several corpora, as `python -m benchmarks.frontier` collects them."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from benchmarks.frontier import collect_corpora, write_results
from benchmarks.machine import describe_machine
from scipy import stats

from tests.needs import needs

SETTINGS = {
    "trained": ("as trained", np.nan, np.nan),
    "paper's sampler": ("step 17", 17.0, 1.0),
    "posterior": ("b = 1, v = 1", 1.0, 1.0),
    "deep ensemble": ("2 networks", 2.0, np.nan),
}


def write_run(folder: Path, seed: int, gain: float) -> Path:
    """Write the files of a run of two networks whose posterior is nearer to the truth by `gain`."""
    rows = []
    for kind, (setting, value, variance) in SETTINGS.items():
        for network in ["all"] if kind == "deep ensemble" else ["0", "1"]:
            row = {"kind": kind, "setting": setting, "network": network, "kl_congruent": 0.01}
            row["kl_reversal"] = 0.2 + 0.01 * (network == "1") - gain * (kind == "posterior")
            rows.append(row | {"value": value, "prior_variance": variance})
    (folder / "tables").mkdir(parents=True)
    table = pd.DataFrame(rows).assign(seconds=0.0, megabytes=0.0)
    table.to_csv(folder / "tables" / "frontier.csv", index=False)
    settings = {"networks": 2, "training": {"seed": seed}}
    (folder / "frontier.toml").write_text(tomli_w.dumps(settings))
    return folder


def test_corpora_are_averaged_with_intervals_over_corpora(tmp_path: Path) -> None:
    gains = [0.05, -0.01, 0.02]
    found = collect_corpora([write_run(tmp_path / str(i), i, g) for i, g in enumerate(gains)])
    own = found[found["kind"] == "posterior"].set_index("seed")
    np.testing.assert_allclose(own.loc[[0, 1, 2], "less_than_trained"].astype(float), gains)
    whole = own.loc["all"]
    width = stats.t.ppf(0.975, 2) * np.std(gains, ddof=1) / np.sqrt(3)
    assert whole["less_than_trained"] == pytest.approx(np.mean(gains))
    assert whole["less_than_trained_high"] == pytest.approx(np.mean(gains) + width)
    assert whole["networks"] == 6


def test_tables_are_stored_with_machine_and_commit(tmp_path: Path) -> None:
    write_results(tmp_path, {"one": pd.DataFrame({"a": [1]})}, "first")
    write_results(tmp_path, {"two": pd.DataFrame({"a": [1]})}, "second")
    known = json.loads((tmp_path / "frontier.json").read_text())
    assert [known[name]["command"] for name in ("one.csv", "two.csv")] == ["first", "second"]
    assert {"cpu", "commit"} <= set(known["one.csv"]["machine"])
    assert (tmp_path / "two.csv").exists()


def test_the_commit_is_that_of_this_repository() -> None:
    root = Path(__file__).resolve().parents[2]
    needs("clone")
    command = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert head.startswith(str(describe_machine()["commit"]).removesuffix("-dirty"))
