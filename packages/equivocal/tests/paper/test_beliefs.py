"""Exact beliefs about the stimuli, and posteriors without a constant feature."""

import numpy as np
import pytest

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.paper.activations import trace_truth
from equivocal.world import World


def test_truth_ends_where_a_sentence_becomes_impossible(paper: World) -> None:
    said = paper.parse("during dinner the pizza eats the woman")
    truth = trace_truth(paper, said, ["agent", "patient"], ["woman", "pizza"])
    assert truth[0, 1, 1] == pytest.approx(0.68)
    assert np.isnan(truth[1:]).all()


@pytest.mark.parametrize("method", ["exact-flow", "dropout-deterministic"])
def test_without_a_constant_feature_biases_stay_as_they_were_trained(
    small_run: Run, method: str
) -> None:
    layer = collect_last_layer(small_run, small_run.networks[0]).select(range(4))
    moved = {}
    for bias in (True, False):
        sampler = SamplerSettings(method=method, num_particles=10, num_steps=5, bias=bias)
        shift = infer_posterior(layer, sampler, 1.0, 0, diagnose=False).mean - layer.trained
        moved[bias] = abs(shift).max(axis=0)
    assert moved[True][-1] > 1e-3
    assert moved[False][-1] < 1e-3 * moved[True][-1] + 1e-5
    assert moved[False][:-1].max() > 1e-3
