"""Rules for claims about activations; `equivocal.study.verdicts` states them all."""

from equivocal.study.statistics import (
    TTest,
    clip_logit,
    compute_largest_p,
    one_sample,
    paired,
    paired_logit,
)
from equivocal.study.tables import load_printed_values
from equivocal.study.verdicts import (
    DIRECTION,
    NOT,
    NOT_TESTABLE,
    REPLICATED,
    Entry,
    Facts,
    Finding,
    explain_tests,
    format_interval,
    format_p,
    format_span,
    grade,
    join_intervals,
)

__all__ = [
    "judge_above_zero",
    "judge_at_zero",
    "judge_change",
    "judge_comparable",
    "judge_high",
    "judge_specific",
]


def judge_high(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Activations of the trained network above one half."""
    limit = facts.limits["high"]
    tests = {
        name: one_sample(facts.get_grids(entry, name, sampler)[1].mean(axis=1))
        for name in entry["measures"]
    }
    verdict = grade(
        [test.mean > limit for test in tests.values()],
        [test.ci_low > limit for test in tests.values()],
    )
    reasons = {
        REPLICATED: f"Means and intervals lie above {limit:g}.",
        DIRECTION: f"The means lie above {limit:g}, but not every interval does.",
        NOT: f"Not every mean lies above {limit:g}.",
    }
    return Finding(join_intervals(tests), verdict, reasons[verdict])


def judge_comparable(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Bayesian − MLE within the margin."""
    margin, tests = facts.limits["margin"], {}
    for name in entry["measures"]:
        bayes, mle = facts.get_grids(entry, name, sampler)
        tests[name] = paired(bayes.mean(axis=1), mle.mean(axis=1))
    verdict = grade(
        [abs(test.mean) < margin for test in tests.values()],
        [max(-test.ci_low, test.ci_high) < margin for test in tests.values()],
    )
    reasons = {
        REPLICATED: f"The differences and their intervals stay within ± {margin:g}.",
        DIRECTION: f"The differences are within ± {margin:g}, but not every interval is.",
        NOT: f"Not every difference is within ± {margin:g}.",
    }
    return Finding("Bayesian − MLE: " + join_intervals(tests, "+"), verdict, reasons[verdict])


def judge_change(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Bayesian − MLE has the printed sign, by four tests for each measure."""
    alpha, sign = facts.limits["alpha"], entry["sign"]
    means: dict[str, TTest] = {}
    missed, reached, against = [], [], []
    for name in entry["measures"]:
        bayes, mle = facts.get_grids(entry, name, sampler)
        tests = {
            "over networks": paired(bayes.mean(axis=1), mle.mean(axis=1)),
            "over items": paired(bayes.mean(axis=0), mle.mean(axis=0)),
            "over networks, logits": paired_logit(bayes, mle),
            "over items, logits": paired_logit(bayes.T, mle.T),
        }
        means[name] = tests["over networks"]
        for kind, test in tests.items():
            reached.append(test.p < alpha and sign * test.mean > 0)
            seen = f"{name} {kind}, {test.mean:+.3g}, t = {test.t:.2f}, {format_p(test.p)}"
            if not reached[-1]:
                missed.append(seen)
            if not sign * test.mean > 0:
                against.append(seen)
    verdict = grade([not against], reached)
    missed = against or missed
    what = f"Bayesian activations are {'higher' if sign > 0 else 'lower'}"
    return Finding(
        "Bayesian − MLE: " + join_intervals(means, "+"),
        verdict,
        explain_tests(verdict, what, missed, alpha),
    )


def judge_specific(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """What the first measure gains exceeds what the second gains."""
    (one, one_mle), (two, two_mle) = (
        facts.get_grids(entry, name, sampler) for name in entry["measures"]
    )
    raw = paired((one - one_mle).mean(axis=1), (two - two_mle).mean(axis=1))
    gains = [clip_logit(a) - clip_logit(b) for a, b in ((one, one_mle), (two, two_mle))]
    on_logits = paired(*(gain.mean(axis=1) for gain in gains))
    alpha = facts.limits["alpha"]
    tests = (raw, on_logits)
    more = [test.mean > 0 for test in tests]
    verdict = grade(more, [test.p < alpha and test.mean > 0 for test in tests])
    missed = [
        f"{kind}, t = {test.t:.2f}, {format_p(test.p)}"
        for kind, test in (("activations", raw), ("logits", on_logits))
        if not (test.p < alpha and test.mean > 0)
    ]
    what = "the indicated agent gains more than words that do not belong"
    text = (
        format_interval(raw, "difference of gains", "+")
        + "; "
        + format_interval(on_logits, "logits", "+")
    )
    return Finding(text, verdict, explain_tests(verdict, what, missed, alpha))


def judge_at_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """The printed test cannot give the printed p; ours are shown."""
    texts = []
    for estimate in entry["estimates"]:
        who = sampler if estimate == "bayes" else estimate
        for name in entry["measures"]:
            models, items = (
                facts.get_test(f"against_zero_{kind}", entry, name, estimate=who)
                for kind in ("models", "items")
            )
            texts.append(
                f"{'Bayesian' if estimate == 'bayes' else 'MLE'} {name} {models['mean']:.3g}"
                f"{format_span(models['ci_low'], models['ci_high'])}, "
                f"networks {format_p(models['p'])}, items {format_p(items['p'])}"
            )
    printed = load_printed_values()["where"]
    sizes = [printed[f"against_zero_{kind}"]["n"] for kind in ("models", "items")]
    largest = " or ".join(f"{compute_largest_p(n):.3f} (n = {n})" for n in sizes)
    why = (
        f"A t-test of non-negative numbers against zero cannot give p above {largest}, so the "
        "printed p are not from this test; that a test finds nothing would not show zero either."
    )
    return Finding("; ".join(texts), NOT_TESTABLE, why)


def judge_above_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Tests against zero, as printed."""
    texts, found = [], {}
    for name in entry["measures"]:
        for kind in ("models", "items"):
            row = facts.get_test(f"against_zero_{kind}", entry, name, estimate=sampler)
            found[f"{name}, {kind}"] = row["p"] < facts.limits["alpha"]
            if kind == "models":
                texts.append(
                    f"{name} {row['mean']:.3g}{format_span(row['ci_low'], row['ci_high'])}"
                )
    verdict = grade([any(found.values())], list(found.values()))
    why = (
        f"{sum(found.values())} of {len(found)} tests against zero have p < "
        f"{facts.limits['alpha']:g}; activations are positive by construction, so the comparison "
        "with the trained network says more."
    )
    return Finding("; ".join(texts), verdict, why)
