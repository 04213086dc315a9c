"""Rules for claims about priors, samplers, accuracy and calibration; `verdicts` states them all.

Rules are found by name and all take (entry, facts, sampler), hence arguments that some ignore.
"""

from typing import Any

import numpy as np

from equivocal.study import verdicts
from equivocal.study.statistics import one_sample, paired
from equivocal.study.verdicts import Entry, Facts, Finding, MissingError, format_p


def judge_undefined(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Show accuracies; what the paper counts is not stated, and counting units rewards silence."""
    if not facts.evidence.get("accuracy"):
        raise MissingError("The accuracy of the networks was not handed over.")
    shares = {"units, %:": "accuracy", "whole answers, %:": "exact_match"}
    found = {label: facts.evidence.get(name) for label, name in shares.items()}
    tests = {label: one_sample(100 * np.asarray(x, float)) for label, x in found.items() if x}
    why = "The paper does not say what its accuracy counts"
    if (zeros := facts.evidence.get("all_zeros")) is not None:
        why += f", and a network that never activates a unit already gets {100 * zeros:.2f} % right"
    return Finding(verdicts.join_intervals(tests), verdicts.NOT_TESTABLE, why + ".")


def judge_no_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge a prior at which the paired test sees nothing, where at the central one it does."""
    alpha = facts.limits["alpha"]
    here = _get_tests(entry, facts, sampler, entry["priors"])
    there = _get_tests(entry, facts, sampler, [facts.central])
    smaller = [abs(a["mean"]) < abs(b["mean"]) for a, b in zip(here, there, strict=True)]
    silent = [a["p"] >= alpha > b["p"] for a, b in zip(here, there, strict=True)]
    verdict = verdicts.grade(smaller, silent)
    tests = ", ".join(f"{row['measure']} {format_p(row['p'])}" for row in here)
    why = facts.explain("no_difference", verdict, alpha=alpha, tests=tests)
    return Finding(_format_changes(here), verdict, why)


def judge_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge priors at which the paired tests see a difference, of either sign."""
    alpha = facts.limits["alpha"]
    rows = _get_tests(entry, facts, sampler, entry["priors"])
    smallest = float(facts.dataset["prior"].min())
    least = _get_tests(entry, facts, sampler, [smallest] * len(entry["priors"]))
    larger = [abs(a["mean"]) > abs(b["mean"]) for a, b in zip(rows, least, strict=True)]
    missed = [
        f"{row['measure']} at {row['prior']:g} I, {scale} {format_p(row[name])}"
        for row in rows
        for name, scale in (("p", "activations"), ("logit_p", "logits"))
        if not row[name] < alpha
    ]
    verdict = verdicts.grade(larger, [not missed])
    if not all(larger):
        pairs = zip(rows, larger, strict=True)
        missed = [f"{row['measure']} at {row['prior']:g} I" for row, good in pairs if not good]
    what = f"all differences are larger than with {smallest:g} I"
    return Finding(
        _format_changes(rows), verdict, verdicts.explain_tests(verdict, what, missed, alpha)
    )


def _get_tests(
    entry: Entry, facts: Facts, sampler: str, priors: list[float]
) -> list[dict[str, Any]]:
    return [
        facts.get_test("priors_models", entry, measure, estimate=sampler, prior=prior)
        for prior in priors
        for measure in entry["measures"]
    ]


def _format_changes(rows: list[dict[str, Any]]) -> str:
    return "Bayesian − MLE: " + "; ".join(
        f"{row['measure']} at {row['prior']:g} I {row['mean']:+.3g}"
        f"{verdicts.format_span(row['ci_low'], row['ci_high'])}"
        for row in rows
    )


def judge_like_nuts(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Judge means and standard deviations of activations against those of NUTS."""
    nuts, factor = _get_nuts(facts), facts.limits["factor"]
    ratio, shift = (np.asarray(_get(nuts, name, sampler)) for name in ("sd_ratio", "mean_shift"))
    alike = (ratio >= 1 / factor) & (ratio <= factor)
    median, share = float(np.median(ratio)), float(alike.mean())
    verdict = verdicts.grade(
        [1 / factor <= median <= factor], [share >= 0.9, float((shift <= 1).mean()) >= 0.9]
    )
    text = (
        f"sd {median:.3g} × that of NUTS in the median ({ratio.min():.3g} to {ratio.max():.3g}); "
        f"means {np.median(shift):.2g} of its sd away"
    )
    why = (
        f"Of {len(ratio)} questions to network {nuts['network']}, {share:.0%} have a standard "
        f"deviation within a factor of {factor:g} of that of NUTS, and {(shift <= 1).mean():.0%} "
        "a mean within one of its standard deviations."
    )
    return Finding(text, verdict, why)


def judge_faster(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge the time taken against that of NUTS, for the same units of one network."""
    nuts = _get_nuts(facts)
    ours, theirs = (float(_get(nuts, f"seconds_{name}", sampler)) for name in (sampler, "nuts"))
    verdict = verdicts.grade(
        [ours < theirs], [judge_like_nuts(entry, facts, sampler).verdict == verdicts.REPLICATED]
    )
    count = len(str(nuts["units"]).split(", "))
    text = f"{ours:.3g} s, NUTS {theirs:.3g} s ({count} units of one network, one run)"
    return Finding(text, verdict, facts.explain("faster", verdict))


def _get_nuts(facts: Facts) -> dict[str, Any]:
    if not facts.evidence.get("nuts"):
        raise MissingError("NUTS was not run in this study.")
    nuts: dict[str, Any] = facts.evidence["nuts"]
    return nuts


def _get(nuts: dict[str, Any], name: str, sampler: str) -> Any:
    """Get what the comparison holds under a name, or for a sampler under it."""
    found = nuts.get(name)
    if isinstance(found, dict):
        found = found.get(sampler)
    if found is None:
        raise MissingError(f"The comparison with NUTS holds no {name} of this sampler.")
    return found


def judge_calibrated(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Judge the distance to the exact beliefs, wherever the words so far are possible."""
    data = facts.dataset
    if sampler not in data["sampler"] or not bool(data["truth"].notnull().any()):
        raise MissingError("This run holds no exact beliefs to compare with.")
    bayes = data["mean"].sel(sampler=sampler, prior=facts.central)
    far, far_mle = (
        abs(answer.astype(float) - data["truth"]).mean(
            ["condition", "item", "position", "probe", "unit"]
        )
        for answer in (bayes, data["mle"])
    )
    test, alpha = paired(far.values, far_mle.values), facts.limits["alpha"]
    verdict = verdicts.grade([test.mean < 0], [test.p < alpha])
    missed = [f"t = {test.t:.2f}, {format_p(test.p)}"]
    what = "its beliefs are nearer to the exact ones"
    text = verdicts.format_interval(test, "mean distance to the exact belief, Bayesian − MLE:", "+")
    text += f"; of the trained networks {far_mle.mean():.3g}, all units, possible beginnings only"
    return Finding(text, verdict, verdicts.explain_tests(verdict, what, missed, alpha))
