"""Exact beliefs about the stimuli."""

import numpy as np
import pytest

from equivocal.paper.activations import trace_truth
from equivocal.world import World


def test_truth_ends_where_a_sentence_becomes_impossible(paper: World) -> None:
    said = paper.parse("during dinner the pizza eats the woman")
    truth = trace_truth(paper, said, ["agent", "patient"], ["woman", "pizza"])
    assert truth[0, 1, 1] == pytest.approx(0.68)
    assert np.isnan(truth[1:]).all()
