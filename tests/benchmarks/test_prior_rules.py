"""The rules that `python -m benchmarks.prior_rules` compares."""

import pytest
from benchmarks.prior_rules import RULES, Trial, apply_rules

OWN = Trial("network", 0.0, 1.0, 0.0, 0.0, 100.0)


def make_trial(gain, errors, share=0.0, kind="zero"):
    """Return a trial that beats the network by a gain of so many standard errors."""
    return Trial(kind, 1.0, share, -gain, gain / errors, 100 - gain)


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [("refit", 0), ("mixture, 0 s.e.", 0), ("mixture, 2 s.e.", 1), ("mixture, 3 s.e.", 2)],
)
def test_a_rule_requires_its_number_of_standard_errors(rule, chosen):
    """Trials are better by 1, 2.5 and 4 standard errors; of those allowed the best is chosen."""
    trials = [make_trial(10, 1.0), make_trial(5, 2.5, 0.25), make_trial(2, 4.0, 0.5)]
    assert RULES[rule].choose(OWN, trials) is trials[chosen]
    assert RULES["mixture, 3 s.e."].choose(OWN, trials[:2]) is OWN


def test_a_row_for_each_rule():
    trials = [make_trial(10, 10), make_trial(20, 10, kind="trained")]
    rows = {row["rule"]: row for row in apply_rules(OWN, [*trials, make_trial(1, 1, 0, "shrunk")])}
    assert list(rows) == list(RULES)
    assert rows["refit"]["change"] == pytest.approx(-10)
    assert rows["refit or fine-tuned, 2 s.e."]["change"] == pytest.approx(-20)
