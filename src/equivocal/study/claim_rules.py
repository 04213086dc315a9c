"""Rules for claims about activations; `equivocal.study.verdicts` states them all in words.

A rule is found by its name, `judge_` and what `record/claims.toml` calls it.
"""

from equivocal.study import statistics, verdicts
from equivocal.study.tables import load_printed_values
from equivocal.study.verdicts import Entry, Facts, Finding, format_p


def judge_high(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether activations of the trained network are above one half."""
    limit = facts.limits["high"]
    tests = {
        name: statistics.one_sample(facts.get_grids(entry, name, sampler)[1].mean(axis=1))
        for name in entry["measures"]
    }
    verdict = verdicts.grade(
        [test.mean > limit for test in tests.values()],
        [test.ci_low > limit for test in tests.values()],
    )
    return Finding(
        verdicts.join_intervals(tests), verdict, facts.explain("high", verdict, limit=limit)
    )


def judge_comparable(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether Bayesian − MLE is within the margin."""
    margin, tests = facts.limits["margin"], {}
    for name in entry["measures"]:
        bayes, mle = facts.get_grids(entry, name, sampler)
        tests[name] = statistics.paired(bayes.mean(axis=1), mle.mean(axis=1))
    verdict = verdicts.grade(
        [abs(test.mean) < margin for test in tests.values()],
        [max(-test.ci_low, test.ci_high) < margin for test in tests.values()],
    )
    why = facts.explain("comparable", verdict, margin=margin)
    return Finding("Bayesian − MLE: " + verdicts.join_intervals(tests, "+"), verdict, why)


def judge_change(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether Bayesian − MLE has the printed sign, by four tests for each measure."""
    alpha, sign = facts.limits["alpha"], entry["sign"]
    means: dict[str, statistics.TTest] = {}
    missed, reached, against = [], [], []
    for name in entry["measures"]:
        bayes, mle = facts.get_grids(entry, name, sampler)
        tests = {
            "over networks": statistics.paired(bayes.mean(axis=1), mle.mean(axis=1)),
            "over items": statistics.paired(bayes.mean(axis=0), mle.mean(axis=0)),
            "over networks, logits": statistics.paired_logit(bayes, mle),
            "over items, logits": statistics.paired_logit(bayes.T, mle.T),
        }
        means[name] = tests["over networks"]
        for kind, test in tests.items():
            reached.append(test.p < alpha and sign * test.mean > 0)
            seen = f"{name} {kind}, {test.mean:+.3g}, t = {test.t:.2f}, {format_p(test.p)}"
            if not reached[-1]:
                missed.append(seen)
            if not sign * test.mean > 0:
                against.append(seen)
    verdict = verdicts.grade([not against], reached)
    what = f"Bayesian activations are {'higher' if sign > 0 else 'lower'}"
    why = verdicts.explain_tests(verdict, what, against or missed, alpha)
    return Finding("Bayesian − MLE: " + verdicts.join_intervals(means, "+"), verdict, why)


def judge_specific(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether the first measure gains more than the second."""
    (one, one_mle), (two, two_mle) = (
        facts.get_grids(entry, name, sampler) for name in entry["measures"]
    )
    raw = statistics.paired((one - one_mle).mean(axis=1), (two - two_mle).mean(axis=1))
    gains = [
        statistics.clip_logit(a) - statistics.clip_logit(b)
        for a, b in ((one, one_mle), (two, two_mle))
    ]
    on_logits = statistics.paired(*(gain.mean(axis=1) for gain in gains))
    alpha, tests = facts.limits["alpha"], {"activations": raw, "logits": on_logits}
    missed = [
        f"{scale}, t = {test.t:.2f}, {format_p(test.p)}"
        for scale, test in tests.items()
        if not (test.p < alpha and test.mean > 0)
    ]
    verdict = verdicts.grade([test.mean > 0 for test in tests.values()], [not missed])
    what = "the indicated agent gains more than words that do not belong"
    text = verdicts.join_intervals({"difference of gains": raw, "logits": on_logits}, "+")
    return Finding(text, verdict, verdicts.explain_tests(verdict, what, missed, alpha))


def judge_at_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Show our tests where the printed test cannot give the printed p."""
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
                f"{verdicts.format_span(models['ci_low'], models['ci_high'])}, "
                f"networks {format_p(models['p'])}, items {format_p(items['p'])}"
            )
    printed = load_printed_values()["where"]
    sizes = [printed[f"against_zero_{kind}"]["n"] for kind in ("models", "items")]
    largest = " or ".join(f"{statistics.compute_largest_p(n):.3f} (n = {n})" for n in sizes)
    why = (
        f"A t-test of non-negative numbers against zero cannot give p above {largest}, so the "
        "printed p are not from this test; that a test finds nothing would not show zero either."
    )
    return Finding("; ".join(texts), verdicts.NOT_TESTABLE, why)


def judge_above_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge tests against zero, as printed."""
    texts, found = [], {}
    for name in entry["measures"]:
        for kind in ("models", "items"):
            row = facts.get_test(f"against_zero_{kind}", entry, name, estimate=sampler)
            found[f"{name}, {kind}"] = row["p"] < facts.limits["alpha"]
            if kind == "models":
                texts.append(
                    f"{name} {row['mean']:.3g}{verdicts.format_span(row['ci_low'], row['ci_high'])}"
                )
    verdict = verdicts.grade([any(found.values())], list(found.values()))
    why = (
        f"{sum(found.values())} of {len(found)} tests against zero have p < "
        f"{facts.limits['alpha']:g}; activations are positive by construction, so the comparison "
        "with the trained network says more."
    )
    return Finding("; ".join(texts), verdict, why)
