"""The figures of many specifications."""

import numpy as np
from tests.paper.made_up import specifications

from equivocal.multiverse.figures import draw_specification_curve


def test_specification_curve_is_sorted_and_shows_each_choice_below_its_effect() -> None:
    table = specifications()
    top, bottom = draw_specification_curve(table).axes
    ordered = table.sort_values("effect", ignore_index=True)
    points = sorted(zip(*np.hstack([line.get_data() for line in top.lines[:3]]), strict=True))
    np.testing.assert_allclose([y for _, y in points], ordered["effect"])
    labels = [text.get_text() for text in bottom.get_yticklabels()]
    assert labels == [
        "particles: 25",
        "particles: 50",
        "particles: 100",
        "step: 0.001",
        "step: rule",
        "dropout: 0",
        "dropout: 0.3",
    ]
    marked = bottom.lines[labels.index("step: rule")].get_xdata()
    assert list(marked) == list(ordered.index[ordered["step"] == "rule"])
    kinds = [text.get_text() for text in top.get_legend().get_texts()]
    assert kinds == ["interval above zero", "interval below zero", "interval includes zero"]
    lone = draw_specification_curve(table.assign(low=np.nan, high=np.nan)).axes[0]
    np.testing.assert_allclose(lone.lines[0].get_ydata(), ordered["effect"])
