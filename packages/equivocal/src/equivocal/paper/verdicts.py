"""How claims are judged: one rule for each kind of claim, the same for every run.

With several measures a claim must hold for each of them. α, "high", "margin", "factor" and the
smallest effects of interest ("smallest", of activations; "smallest_share", of errors) are the
limits of `record/claims.toml`. Confidence intervals are 95 %, over networks.

- undefined: a number whose meaning is not stated → not testable as printed.
- high: mean activation above "high" → direction only; its interval too → replicated.
- comparable: |Bayesian − MLE| below "margin" → direction only; its interval too → replicated.
- change: Bayesian − MLE has the printed sign on activations and on logits, over networks and over
  items → direction only; and all four tests have p < α and it is "smallest" or more → replicated.
- specific: as change, for what one measure gains over what another gains, over networks.
- at_zero: the printed p exceed what non-negative numbers can give → not testable as printed.
- above_zero: p < α against zero in some of the tests, networks and items → direction only; in all,
  and means of "smallest" or more → replicated.
- no_difference: smaller at this prior than at the central one → direction only; and p ≥ α here
  where the same test has p < α and "smallest" or more there → replicated.
- difference: the signs of the printed paired tests, on activations and on logits, and larger at
  these priors than at the smallest → direction only; and p < α on both scales, and "smallest" or
  more → replicated.
- like_hmc: the standard deviation of an activation is within "factor" of that of Hamiltonian Monte
  Carlo in the median over networks and questions → direction only; for nine of ten, and their means
  within one of its standard deviations → replicated.
- faster: fewer seconds than NUTS → direction only; and like_hmc is replicated → replicated.
- calibrated: smaller expected calibration error, by the world's exact beliefs, over networks →
  direction only; and p < α, and smaller by "smallest_share" or more → replicated.
- nearer_to_truth: the same for the divergence from the exact beliefs, for reversals that
  have a true answer, in the world `slips`.

Otherwise: not replicated. Where a rule lacks evidence: not run.

A new kind of claim is a `judge_…` function, which is found by its name, and an entry in
`record/claims.toml`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from equivocal.paper.tables import arrange_grid, load_printed_values
from equivocal.statistics.summaries import (
    TTest,
    calibration_error,
    clip_logit,
    compare_logit_pairs,
    compare_pairs,
    compare_with_zero,
    compute_largest_p,
)

REPLICATED, DIRECTION, NOT = "replicated", "direction only", "not replicated"
NOT_TESTABLE, NOT_RUN = "not testable as printed", "not run"
Entry = dict[str, Any]


class MissingError(Exception):
    """Raised where a run lacks the evidence that a claim's rule needs."""


@dataclass(frozen=True)
class Finding:
    """Our numbers with intervals as text, the verdict, and a sentence that explains it."""

    text: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Facts:
    """Everything that claims are judged from."""

    dataset: xr.Dataset
    rows: pd.DataFrame  # `compute_measures` of the dataset
    central: float  # prior variance
    tables: dict[str, pd.DataFrame]
    evidence: dict[str, Any]
    limits: dict[str, float]
    reasons: dict[str, dict[str, str]]  # sentences by rule and verdict

    def explain(self, rule: str, verdict: str, **values: object) -> str:
        """Return the sentence of `record/claims.toml` for a verdict, filled in."""
        reasons = self.reasons[rule]
        text = reasons.get(verdict, reasons.get("any verdict", ""))
        return text.format(**self.limits, **values)

    def get_grids(self, entry: Entry, measure: str, sampler: str) -> tuple[np.ndarray, np.ndarray]:
        """Get (network, item) activations of the Bayesian model and of the trained network."""
        where = {"condition": entry["condition"], "measure": measure, "sampler": sampler}
        rows = select_rows(self.rows, **where, prior=self.central)
        return arrange_grid(rows, "mean"), arrange_grid(rows, "mle")

    def compare_models(self, entry: Entry, measure: str, sampler: str) -> TTest:
        """Test Bayesian − MLE over networks, items averaged."""
        bayes, mle = self.get_grids(entry, measure, sampler)
        return compare_pairs(bayes.mean(axis=1), mle.mean(axis=1))

    def check(self) -> "Checks":
        """Begin to check the tests of a claim about activations."""
        return Checks(self.limits["alpha"], self.limits["smallest"])

    def get_test(self, table: str, entry: Entry, measure: str, **where: object) -> dict[str, Any]:
        """Get one row of a table as a dictionary."""
        if table not in self.tables:
            raise MissingError(f"The table {table} was not made.")
        found = select_rows(
            self.tables[table], condition=entry["condition"], measure=measure, **where
        )
        return {str(name): value for name, value in found.iloc[:1].to_dict("records")[0].items()}


def select_rows(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Select the rows with these values, or raise a `MissingError` where there are none."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    if rows.empty:
        sought = ", ".join(f"{column} {value}" for column, value in values.items())
        raise MissingError(f"This run holds nothing for {sought}.")
    return rows


def grade(direction: Sequence[bool], reached: Sequence[bool]) -> str:
    """Return the verdict: "replicated" if all is true, "direction only" if `direction` alone is."""
    if not all(direction):
        return NOT
    return REPLICATED if all(reached) else DIRECTION


def format_p(value: float) -> str:
    """Format a p-value.

    >>> format_p(0.00003), format_p(0.04), format_p(float("nan"))
    ('p < 0.0001', 'p = 0.0400', 'p undefined')
    """
    if np.isnan(value):
        return "p undefined"
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.4f}"


@dataclass
class Checks:
    """What a rule made of tests found: wrong signs, missing significance, effects too small."""

    alpha: float
    least: float  # effect of interest
    against: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)

    def add(self, seen: str, signed: float, p: float) -> None:
        """Add a test; `signed` is above zero where the effect has the claimed sign."""
        if not signed > 0:
            self.against.append(seen)
        elif not p < self.alpha:
            self.missed.append(seen)

    def measure(self, seen: str, size: float) -> None:
        """Add the size of an effect."""
        if not size >= self.least:
            self.small.append(seen)

    def conclude(self, what: str) -> tuple[str, str]:
        """Return the verdict, and why; `what` is the claim in words."""
        if self.against:
            return NOT, f"It is not so that {what}: {_join_some(self.against)}."
        start = what[0].upper() + what[1:]
        gaps = {
            f"not every test has p < {self.alpha:g}": self.missed,
            f"not every effect reaches {self.least:.2g}": self.small,
        }
        said = [f"{gap} ({_join_some(seen)})" for gap, seen in gaps.items() if seen]
        if said:
            return DIRECTION, f"{start}, but {' and '.join(said)}."
        reached = f"every test has p < {self.alpha:g}, and every effect reaches {self.least:.2g}"
        return REPLICATED, f"{start}, {reached}."


def _describe_test(test: TTest) -> str:
    return f"{test.mean:+.3g}, t = {test.t:.2f}, {format_p(test.p)}"


def _join_some(texts: list[str]) -> str:
    return "; ".join(texts[:4]) + (f"; and {len(texts) - 4} more" if len(texts) > 4 else "")


def join_intervals(tests: dict[str, TTest], sign: str = "") -> str:
    """Format the means and intervals of tests, joined by semicolons."""
    return "; ".join(_format_row(asdict(test), name, sign) for name, test in tests.items())


def grade_error(
    bayes: ArrayLike, mle: ArrayLike, name: str, what: str, more: str, limits: dict[str, float]
) -> Finding:
    """Judge whether an error is smaller than that of the trained networks; one for each network."""
    test = compare_pairs(bayes, mle)
    least = limits["smallest_share"] * float(np.asarray(mle, float).mean())
    checks = Checks(limits["alpha"], least)
    checks.add(_describe_test(test), -test.mean, test.p)
    checks.measure(f"{test.mean:+.3g}", -test.mean)
    text = join_intervals({f"{name}, Bayesian − MLE:": test}, "+") + more
    return Finding(text, *checks.conclude(what))


def judge_high(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether activations of the trained network are above one half."""
    limit, names = facts.limits["high"], entry["measures"]
    mle = {name: facts.get_grids(entry, name, sampler)[1].mean(axis=1) for name in names}
    tests = {name: compare_with_zero(values) for name, values in mle.items()}
    verdict = grade(
        [test.mean > limit for test in tests.values()],
        [test.ci_low > limit for test in tests.values()],
    )
    return Finding(join_intervals(tests), verdict, facts.explain("high", verdict))


def judge_comparable(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether Bayesian − MLE is within the margin."""
    margin = facts.limits["margin"]
    tests = {name: facts.compare_models(entry, name, sampler) for name in entry["measures"]}
    verdict = grade(
        [abs(test.mean) < margin for test in tests.values()],
        [max(-test.ci_low, test.ci_high) < margin for test in tests.values()],
    )
    text = "Bayesian − MLE: " + join_intervals(tests, "+")
    return Finding(text, verdict, facts.explain("comparable", verdict))


def judge_change(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether Bayesian − MLE has the printed sign and a size, by four tests per measure."""
    sign, checks, means = entry["sign"], facts.check(), dict[str, TTest]()
    for name in entry["measures"]:
        bayes, mle = facts.get_grids(entry, name, sampler)
        means[name] = facts.compare_models(entry, name, sampler)
        tests = {
            "over networks": means[name],
            "over items": compare_pairs(bayes.mean(axis=0), mle.mean(axis=0)),
            "over networks, logits": compare_logit_pairs(bayes, mle),
            "over items, logits": compare_logit_pairs(bayes.T, mle.T),
        }
        for kind, test in tests.items():
            checks.add(f"{name} {kind}, {_describe_test(test)}", sign * test.mean, test.p)
        checks.measure(f"{name} {means[name].mean:+.3g}", abs(means[name].mean))
    what = f"Bayesian activations are {'higher' if sign > 0 else 'lower'}"
    text = "Bayesian − MLE: " + join_intervals(means, "+")
    return Finding(text, *checks.conclude(what))


def judge_specific(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge whether the first measure gains more than the second."""
    (one, one_mle), (two, two_mle) = (
        facts.get_grids(entry, name, sampler) for name in entry["measures"]
    )
    raw = compare_pairs((one - one_mle).mean(axis=1), (two - two_mle).mean(axis=1))
    gains = [clip_logit(a) - clip_logit(b) for a, b in ((one, one_mle), (two, two_mle))]
    on_logits = compare_pairs(*(gain.mean(axis=1) for gain in gains))
    checks = facts.check()
    for scale, test in {"activations": raw, "logits": on_logits}.items():
        checks.add(f"{scale}, {_describe_test(test)}", test.mean, test.p)
    checks.measure(f"{raw.mean:+.3g}", raw.mean)
    text = join_intervals({"difference of gains": raw, "logits": on_logits}, "+")
    what = "the indicated agent gains more than words that do not belong"
    return Finding(text, *checks.conclude(what))


def judge_at_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Show our tests, since the printed test cannot give the printed p."""
    texts = []
    for estimate, name in product(entry["estimates"], entry["measures"]):
        who, label = (sampler, "Bayesian") if estimate == "bayes" else (estimate, "MLE")
        models, items = _test_against_zero(entry, facts, name, who)
        p_values = f"networks {format_p(models['p'])}, items {format_p(items['p'])}"
        texts.append(f"{_format_row(models, f'{label} {name}')}, {p_values}")
    where = load_printed_values()["where"]
    sizes = [where[f"against_zero_{kind}"]["n"] for kind in ("models", "items")]
    largest = " or ".join(f"{compute_largest_p(n):.3f} (n = {n})" for n in sizes)
    why = facts.explain("at_zero", NOT_TESTABLE, largest=largest)
    return Finding("; ".join(texts), NOT_TESTABLE, why)


def judge_above_zero(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge tests against zero, as printed."""
    names, limits = entry["measures"], facts.limits
    tests = {name: _test_against_zero(entry, facts, name, sampler) for name in names}
    found = [row["p"] < limits["alpha"] for rows in tests.values() for row in rows]
    least = min(row["mean"] for rows in tests.values() for row in rows)
    verdict = grade([any(found)], [*found, least >= limits["smallest"]])
    numbers = {"found": sum(found), "tests": len(found), "least": least}
    text = "; ".join(_format_row(models, name) for name, (models, _) in tests.items())
    return Finding(text, verdict, facts.explain("above_zero", verdict, **numbers))


def _test_against_zero(
    entry: Entry, facts: Facts, measure: str, estimate: str
) -> list[dict[str, Any]]:
    """Get the tests of a measure over networks and over items."""
    tables = ("against_zero_models", "against_zero_items")
    return [facts.get_test(table, entry, measure, estimate=estimate) for table in tables]


def _format_row(row: dict[str, Any], name: str, sign: str = "") -> str:
    """Format mean and interval of a test; that is NaN without spread or with a single network."""
    low, high = row["ci_low"], row["ci_high"]
    span = f"[{low:.3g}, {high:.3g}]" if low <= high else "(no interval)"
    return f"{name} {row['mean']:{sign}.3g} {span}"


def judge_undefined(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Show accuracies; the paper does not say what it counts, and most units are off anyway."""
    found = facts.evidence
    if not found.get("accuracy"):
        raise MissingError("The accuracy of the networks was not handed over.")
    shares = {"units, %:": found["accuracy"], "whole answers, %:": found["exact_match"]}
    tests = {label: compare_with_zero(100 * np.asarray(x, float)) for label, x in shares.items()}
    why = facts.explain("undefined", NOT_TESTABLE, zeros=100 * found["all_zeros"])
    return Finding(join_intervals(tests), NOT_TESTABLE, why)


def judge_no_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge a prior at which paired tests show no difference, though they do at the central one."""
    alpha, smallest = facts.limits["alpha"], facts.limits["smallest"]
    here = _get_tests(entry, facts, sampler, entry["priors"])
    there = _get_tests(entry, facts, sampler, [facts.central])
    pairs = list(zip(here, there, strict=True))
    smaller = [abs(a["mean"]) < abs(b["mean"]) for a, b in pairs]
    silent = [a["p"] >= alpha > b["p"] and abs(b["mean"]) >= smallest for a, b in pairs]
    verdict = grade(smaller, silent)
    said = [f"{a['measure']} {format_p(a['p'])} here, {b['mean']:+.3g} there" for a, b in pairs]
    why = facts.explain("no_difference", verdict, tests=", ".join(said))
    return Finding(_format_changes(here), verdict, why)


def judge_difference(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge priors at which the paired tests show a difference of the printed sign."""
    printed = load_printed_values()["paired_models"]
    rows = _get_tests(entry, facts, sampler, entry["priors"])
    smallest = float(facts.dataset["prior"].min())
    least = _get_tests(entry, facts, sampler, [smallest] * len(entry["priors"]))
    checks = facts.check()
    for row, other in zip(rows, least, strict=True):
        where, mean = f"{row['measure']} at {row['prior']:g} I", row["mean"]
        sign = np.sign(float(printed[row["measure"]]["paper"]["t"]))
        if not abs(mean) > abs(other["mean"]):
            checks.against.append(f"{where} {mean:+.3g}, with {smallest:g} I {other['mean']:+.3g}")
        for start, scale in (("", "activations"), ("logit_", "logits")):
            effect, p = row[f"{start}mean"], row[f"{start}p"]
            checks.add(f"{where}, {scale} {effect:+.3g}, {format_p(p)}", sign * effect, p)
        checks.measure(f"{where} {mean:+.3g}", abs(mean))
    what = f"all differences have the printed sign and are larger than with {smallest:g} I"
    return Finding(_format_changes(rows), *checks.conclude(what))


def _get_tests(
    entry: Entry, facts: Facts, sampler: str, priors: list[float]
) -> list[dict[str, Any]]:
    """Get the paired tests over networks, for each prior and measure."""
    return [
        facts.get_test("priors_models", entry, measure, estimate=sampler, prior=prior)
        for prior in priors
        for measure in entry["measures"]
    ]


def _format_changes(rows: list[dict[str, Any]]) -> str:
    return "Bayesian − MLE: " + "; ".join(
        _format_row(row, f"{row['measure']} at {row['prior']:g} I", "+") for row in rows
    )


def judge_like_hmc(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Judge means and standard deviations of activations against those of the exact posterior."""
    exact, factor = facts.evidence.get("exact", {}), facts.limits["factor"]
    if sampler not in exact:
        raise MissingError("The exact posterior was not sampled in this study.")
    ratio, shift = map(np.asarray, exact[sampler])
    alike = float(((ratio >= 1 / factor) & (ratio <= factor)).mean())
    near, median = float((shift <= 1).mean()), float(np.median(ratio))
    verdict = grade([1 / factor <= median <= factor], [alike >= 0.9, near >= 0.9])
    text = (
        f"sd {median:.3g} × that of Hamiltonian Monte Carlo in the median ({ratio.min():.3g} to "
        f"{ratio.max():.3g}); means {np.median(shift):.2g} of its sd away"
    )
    counts = {"questions": len(ratio)} | exact
    why = facts.explain("like_hmc", verdict, alike=alike, near=near, **counts)
    if "nuts" in exact:
        ratio, shift = map(np.asarray, exact["nuts"])
        found = {"questions": len(ratio), "ratio": np.quantile(ratio, (0, 0.5, 1))}
        why += " " + facts.explain("like_hmc", "nuts", shift=shift.max(), **found)
    return Finding(text, verdict, why)


def judge_faster(entry: Entry, facts: Facts, sampler: str) -> Finding:
    """Judge the time taken against that of NUTS, for the same units of one network."""
    alike, nuts = judge_like_hmc(entry, facts, sampler), facts.evidence.get("nuts")
    if not nuts:
        raise MissingError("NUTS was not run in this study.")
    ours, theirs = (float(nuts[f"seconds_{name}"]) for name in (sampler, "nuts"))
    verdict = grade([ours < theirs], [alike.verdict == REPLICATED])
    count = len(str(nuts["units"]).split(", "))
    timed = f"{count} units of one network, one run, perhaps beside other work"
    text = f"{ours:.3g} s, NUTS {theirs:.3g} s ({timed})"
    return Finding(text, verdict, facts.explain("faster", verdict))


def judge_calibrated(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Judge the calibration error against exact beliefs, wherever the words so far are possible."""
    data = facts.dataset
    known = data["truth"].stack(row=data["truth"].dims[:-1]).dropna("row").transpose("row", ...)
    if sampler not in data["sampler"] or not known.size:
        raise MissingError("This run holds no exact beliefs to compare with.")
    bayes, mle = (
        [calibration_error(known.values, own.values) for own in _select_known(answers, known)]
        for answers in (data["mean"].sel(sampler=sampler, prior=facts.central), data["mle"])
    )
    what, name = "its calibration error is smaller", "expected calibration error"
    more = f"; of the trained networks {np.mean(mle):.3g}, all units, possible beginnings only"
    return grade_error(bayes, mle, name, what, more, facts.limits)


def _select_known(answers: xr.DataArray, known: xr.DataArray) -> Iterator[xr.DataArray]:
    """Yield the answers of each network (row, unit) to the questions that have a true answer."""
    for network in answers["network"].values:
        own = answers.sel(network=network).stack(row=known["row"].to_index().names)
        yield own.sel(row=known["row"]).transpose("row", ...)


def judge_nearer_to_truth(entry: Entry, facts: Facts, sampler: str) -> Finding:  # noqa: ARG001
    """Judge whether beliefs are closer to the truth on reversals that have a true answer."""
    table = facts.evidence.get("truth")
    if table is None:
        raise MissingError("Networks of the world `slips` were not asked in this run.")
    return compare_errors(table, sampler, facts.limits)


def compare_errors(truth: pd.DataFrame, sampler: str, limits: dict[str, float]) -> Finding:
    """Compare the errors of a sampler with those of the trained networks, paired by network."""
    errors = truth.groupby(["kind", "condition", "network"])["kl"].mean()
    bayes, mle = errors[sampler, "reversal"], errors["trained", "reversal"]
    congruent = (errors[kind, "congruent"].mean() for kind in (sampler, "trained"))
    what = "its beliefs are nearer to the exact ones where a reversal has a true answer"
    more = f"; of the trained networks {mle.mean():.3g} nats, all of one corpus"
    more += "; on congruent sentences {:.3g}, trained {:.3g}".format(*congruent)
    return grade_error(bayes, mle, "divergence from the exact beliefs", what, more, limits)
