"""`evidence=b`: counts and targets times b, for every method."""

import numpy as np
import pytest

from equivocal.beliefs import LayerRows, SamplerSettings, infer_posterior
from lastlayer.errors import UserError
from lastlayer.sampling import METHODS
from problems import sample_posterior

B = 0.03125  # a power of two, so that products are exact
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(40), RNG.normal(size=(40, 2))])
T = (RNG.random((40, 2)) < 0.4).astype(float)
COUNTS = RNG.integers(1, 9, 40).astype(float)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("hmc", "nuts")])
def test_evidence_is_counts_and_targets_times_b(method: str) -> None:
    how = {"method": method, "num_particles": 12, "num_steps": 5}
    t = T * COUNTS[:, None]
    weighed = sample_posterior(X, t, counts=COUNTS, evidence=B, **how)
    by_hand = sample_posterior(X, t * B, counts=COUNTS * B, **how)
    np.testing.assert_array_equal(weighed.particles, by_hand.particles)
    full = sample_posterior(X, t, counts=COUNTS, **how)
    assert np.abs(weighed.particles - full.particles).max() > 0.01
    recorded = [each.info.settings["evidence"] for each in (weighed, by_hand)]
    assert recorded == [B, 1.0]


def test_less_evidence_leaves_more_of_the_prior() -> None:
    widths = [
        np.trace(sample_posterior(X, T, evidence=b).covariance[0]) for b in (1e-9, 0.1, 1, 10)
    ]
    assert widths[0] == pytest.approx(3, rel=1e-6)  # the prior's own
    assert widths == sorted(widths, reverse=True)


def test_a_sentence_is_one_unit_of_evidence() -> None:
    layer = LayerRows(X, T * COUNTS[:, None], COUNTS, np.zeros((2, 3)), sentences=8.0)
    settings = SamplerSettings(method="exact-flow", evidence="sentence")
    found = infer_posterior(layer, settings, 1.0, seed=0)
    assert found.info.settings["evidence"] == 8 / COUNTS.sum()
    assert layer.select([1]).sentences == 8
    with pytest.raises(UserError, match="number of sentences"):
        infer_posterior(layer._replace(sentences=None), settings, 1.0, seed=0)
