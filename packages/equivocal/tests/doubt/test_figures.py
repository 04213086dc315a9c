"""The figure of one sentence beside the truth, from the recorded table."""

from pathlib import Path

import pandas as pd

from equivocal.doubt.figures import draw_example

TABLE = Path(__file__).resolve().parents[4] / "benchmarks" / "results" / "frontier_example.csv"


def test_example_shows_the_spread_of_the_networks() -> None:
    table = pd.read_csv(TABLE)
    sentences = {"reversal": "the pizza eats the woman", "congruent": "the woman eats the pizza"}
    figure = draw_example(table, sentences, "pizza")
    axes, other = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "trained"
    assert "paper's sampler\n(step 17)" in names
    own = table[(table["condition"] == "reversal") & (table["kind"] == "trained")]["belief"]
    spans = [line.get_xdata() for line in axes.lines if line.get_linewidth() > 10]
    assert len(spans) == 3  # a deep ensemble is one comprehender, without a spread
    assert list(spans[0]) == list(own.quantile([0.05, 0.95]))
    assert "exact: < 0.001" in [text.get_text() for text in other.texts]
