"""The rules that `python -m benchmarks.prior_rules` compares."""

import numpy as np
import pytest
from benchmarks.prior_rules import RULES, Trial, apply_rules

RNG = np.random.default_rng(0)
OWN = Trial("network", 0.0, 1.0, RNG.exponential(1.0, 100), 100.0)


def make_trial(gain, noise, share=0.0, kind="zero"):
    """Return a trial that beats the network by exactly `gain` ± `noise` per row."""
    z = RNG.standard_normal(100)
    z = (z - z.mean()) / z.std()
    return Trial(kind, 1.0, share, OWN.validation - gain + noise * z, 100 - 100 * gain)


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [("refit", 0), ("mixture, 0 s.e.", 0), ("mixture, 2 s.e.", 1), ("mixture, 3 s.e.", 2)],
)
def test_a_rule_requires_its_number_of_standard_errors(rule, chosen):
    """Trials are better by 1, 2.5 and 4 standard errors; of those allowed the best is chosen."""
    trials = [make_trial(0.1, 1.0), make_trial(0.05, 0.2, 0.25), make_trial(0.02, 0.05, 0.5)]
    assert RULES[rule].choose(OWN, trials) is trials[chosen]
    assert RULES["mixture, 3 s.e."].choose(OWN, trials[:2]) is OWN


def test_noise_beyond_that_of_the_rows_counts():
    quiet = make_trial(0.02, 0.05, 0.5)._replace(noise=4.0)  # 2 nats, the whole gain
    assert RULES["mixture, 3 s.e. of rows"].choose(OWN, [quiet]) is quiet
    assert RULES["mixture, 2 s.e."].choose(OWN, [quiet]) is OWN


def test_a_row_for_each_rule():
    trials = [make_trial(0.1, 0.1), make_trial(0.2, 0.1, kind="trained")]
    rows = {row["rule"]: row for row in apply_rules(OWN, [*trials, make_trial(0, 1, 0, "shrunk")])}
    assert list(rows) == list(RULES)
    assert rows["refit"]["change"] == pytest.approx(-10)
    assert rows["refit or fine-tuned, 2 s.e."]["change"] == pytest.approx(-20)
