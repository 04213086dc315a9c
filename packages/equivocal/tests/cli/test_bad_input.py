"""Bad trials: one sentence each, exit code 2, and earlier results stay."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.commands import fails


def make_trials(folder: Path, answer: np.ndarray) -> None:
    """Eight participants answer about six items once each."""
    person, item = np.divmod(np.arange(48), 6)
    pd.DataFrame({"participant": person, "item": item, "answer": answer}).to_csv(
        folder / "data.csv", index=False
    )
    x = [0.1, 0.7, 0.3, 0.9, 0.5, 0.2]
    pd.DataFrame({"item": range(6), "surprise": x}).to_csv(folder / "measures.csv", index=False)


RANDOM = np.random.default_rng(0).integers(0, 2, 48).astype(float)
ANSWERS = {
    "other than 0 and 1": (RANDOM * 2, "the response is 2 in line"),
    "separated": (
        np.tile([0, 1, 0, 1, 1, 0], 8),
        "separates the answers|every item has one answer",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_no_logistic_model_can_take(name: str, tmp_path: Path) -> None:
    answer, message = ANSWERS[name]
    make_trials(tmp_path, answer)
    before = tmp_path / "out" / "compare.csv"
    before.parent.mkdir()
    before.write_text("earlier")
    (tmp_path / "out" / "compare.toml").write_text("")
    given = ["--measures", "measures.csv", "--family", "binomial", "--out", "out"]
    given += ["--response", "answer"]
    said = fails("people", "compare", "data.csv", *given, cwd=tmp_path)
    assert any(part in said for part in message.split("|")), said
    assert before.read_text() == "earlier"
