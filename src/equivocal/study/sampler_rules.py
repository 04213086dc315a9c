"""Rules for claims about priors, samplers, accuracy and calibration; `verdicts` states them all.

Rules are found by name and all take (entry, facts, sampler), hence arguments that some ignore.
"""

from typing import Any

import numpy as np

from equivocal.study.statistics import one_sample, paired
from equivocal.study.verdicts import (
    DIRECTION,
    NOT,
    NOT_TESTABLE,
    REPLICATED,
    Entry,
    Facts,
    Finding,
    MissingError,
    explain_tests,
    format_interval,
    format_p,
    format_span,
    grade,
)

__all__ = [
    "judge_calibrated",
    "judge_difference",
    "judge_faster",
    "judge_like_nuts",
    "judge_no_difference",
    "judge_undefined",
]


def judge_undefined(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Accuracy: what is counted is not stated, and counting units rewards silence."""
    if not facts.evidence.get("accuracy"):
        raise MissingError("The accuracy of the networks was not handed over.")
    units = one_sample(100 * np.asarray(facts.evidence["accuracy"], float))
    text, why = (
        format_interval(units, "units, %:"),
        "The paper does not say what its accuracy counts",
    )
    if exact := facts.evidence.get("exact_match"):
        text += "; " + format_interval(
            one_sample(100 * np.asarray(exact, float)), "whole answers, %:"
        )
    if (zeros := facts.evidence.get("all_zeros")) is not None:
        why += f", and a network that never activates a unit already gets {100 * zeros:.2f} % right"
    return Finding(text, NOT_TESTABLE, why + ".")


def judge_no_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """A prior at which the paired test sees nothing, where at the central one it does."""
    alpha = facts.limits["alpha"]
    here = _by_prior(entry, facts, sampler, entry["priors"])
    there = _by_prior(entry, facts, sampler, [facts.central])
    smaller = [abs(a["mean"]) < abs(b["mean"]) for a, b in zip(here, there, strict=True)]
    silent = [a["p"] >= alpha > b["p"] for a, b in zip(here, there, strict=True)]
    verdict = grade(smaller, silent)
    tests = ", ".join(f"{row['measure']} {format_p(row['p'])}" for row in here)
    reasons = {
        REPLICATED: f"No test has p < {alpha:g} here and all have at the central prior ({tests}).",
        DIRECTION: f"The differences are smaller than at the central prior, but the tests do not "
        f"fall silent here alone ({tests}).",
        NOT: "Not every difference is smaller than at the central prior.",
    }
    return Finding(_changes(here), verdict, reasons[verdict])


def judge_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Priors at which the paired tests see a difference, of either sign."""
    alpha = facts.limits["alpha"]
    rows = _by_prior(entry, facts, sampler, entry["priors"])
    smallest = float(facts.dataset["prior"].min())
    least = _by_prior(entry, facts, sampler, [smallest] * len(entry["priors"]))
    larger = [abs(a["mean"]) > abs(b["mean"]) for a, b in zip(rows, least, strict=True)]
    verdict = grade(
        larger,
        [row[name] < alpha for row in rows for name in ("p", "logit_p")],
    )
    missed = [
        f"{row['measure']} at {row['prior']:g} I, {scale} {format_p(row[name])}"
        for row in rows
        for name, scale in (("p", "activations"), ("logit_p", "logits"))
        if not row[name] < alpha
    ]
    if not all(larger):
        pairs = zip(rows, larger, strict=True)
        missed = [f"{row['measure']} at {row['prior']:g} I" for row, good in pairs if not good]
    what = f"all differences are larger than with {smallest:g} I"
    return Finding(_changes(rows), verdict, explain_tests(verdict, what, missed, alpha))


def _by_prior(
    entry: Entry, facts: Facts, sampler: str, priors: list[float]
) -> list[dict[str, Any]]:
    return [
        facts.get_test("priors_models", entry, measure, estimate=sampler, prior=prior)
        for prior in priors
        for measure in entry["measures"]
    ]


def _changes(rows: list[dict[str, Any]]) -> str:
    return "Bayesian − MLE: " + "; ".join(
        f"{row['measure']} at {row['prior']:g} I {row['mean']:+.3g}"
        f"{format_span(row['ci_low'], row['ci_high'])}"
        for row in rows
    )


def judge_like_nuts(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Means and standard deviations of activations beside those of NUTS, question by question."""
    nuts, factor = _nuts(facts), facts.limits["factor"]
    ratio, shift = (np.asarray(_of(nuts, name, sampler)) for name in ("sd_ratio", "mean_shift"))
    alike = (ratio >= 1 / factor) & (ratio <= factor)
    median, share = float(np.median(ratio)), float(alike.mean())
    verdict = grade(
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
    """Seconds beside those of NUTS, for the same units of one network."""
    nuts = _nuts(facts)
    ours, theirs = (float(_of(nuts, f"seconds_{name}", sampler)) for name in (sampler, "nuts"))
    verdict = grade([ours < theirs], [judge_like_nuts(entry, facts, sampler).verdict == REPLICATED])
    reasons = {
        REPLICATED: "It is faster, and arrives at what NUTS finds.",
        DIRECTION: "It is faster, but does not arrive at what NUTS finds.",
        NOT: "It is not faster.",
    }
    count = len(str(nuts["units"]).split(", "))
    text = f"{ours:.3g} s, NUTS {theirs:.3g} s ({count} units of one network, one run)"
    return Finding(text, verdict, reasons[verdict])


def _nuts(facts: Facts) -> dict[str, Any]:
    if not facts.evidence.get("nuts"):
        raise MissingError("NUTS was not run in this study.")
    nuts: dict[str, Any] = facts.evidence["nuts"]
    return nuts


def _of(nuts: dict[str, Any], name: str, sampler: str) -> Any:
    """What the comparison holds under a name, or of a sampler under it."""
    found = nuts.get(name)
    if isinstance(found, dict):
        found = found.get(sampler)
    if found is None:
        raise MissingError(f"The comparison with NUTS holds no {name} of this sampler.")
    return found


def judge_calibrated(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Distance to the exact beliefs: all units, probes and words whose sentence is possible."""
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
    verdict = grade([test.mean < 0], [test.p < alpha])
    missed = [f"t = {test.t:.2f}, {format_p(test.p)}"]
    what = "its beliefs are nearer to the exact ones"
    text = format_interval(test, "mean distance to the exact belief, Bayesian − MLE:", "+")
    text += f"; of the trained networks {far_mle.mean():.3g}, all units, possible beginnings only"
    return Finding(text, verdict, explain_tests(verdict, what, missed, alpha))
