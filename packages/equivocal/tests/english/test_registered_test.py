"""The registered test runs from end to end, and its questions are answered as they were put."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.english.findings import measure_ranking
from equivocal.english.language_model import LanguageModel

COLUMNS = ["comprehender", "seed", "kind", "construction", "nll", "information", "literal"]


def test_a_score_ranks_wrong_answers_as_counting_pairs_does() -> None:
    rng = np.random.default_rng(0)
    score = pd.Series(rng.integers(5, size=60).astype(float))
    wrong = pd.Series((rng.random(60) < 0.3).astype(float))
    bad, good = score[wrong > 0].to_numpy()[:, None], score[wrong == 0].to_numpy()
    pairs = (bad > good).mean() + (bad == good).mean() / 2
    assert np.isclose(measure_ranking(score, wrong), pairs)


@pytest.mark.longer
def test_the_test_writes_its_tables_and_a_report(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from equivocal.english.report import run_test

    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "cache"))
    result = run_test(tmp_path / "out", lm=tiny_model, quick=True)
    loss = pd.read_csv(tmp_path / "out" / "tables" / "loss.csv")
    assert list(loss.columns) == COLUMNS
    assert {"trained network", "exact posterior", "ensemble of posteriors"} <= set(
        loss["comprehender"]
    )
    # a model with random weights cannot know: the loss is that of guessing, or more
    assert loss["nll"].mean() > 0.5
    assert LanguageModel(tiny_model).name in (tmp_path / "out" / "english.toml").read_text()
    assert set(result.tables["answers"]["question"]) == {"1a", "1b", "2", "3", "4", "5", "6", "7"}
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Does it understand the controls?" in report
    assert report.count("<img") == 3
