"""Choose the prior's variance by rows held out of the fit, or by the evidence.

Held-out rows are those given as `validation`, or parts of the rows themselves, left out in turn
(`held_out`); `prior_search` explains how priors are compared. A `Question` holds what the caller
gave, a `Choice` the result.

Where there is a network with weights W, the mean m of the posterior may be moved towards it,

    (1 − s) m + s W,        0 ≤ s ≤ 1,                                                         (1)

which mixes the logits of the two. The covariance is the posterior's whatever s is, so that
intervals have the width that the data leave. s has the least loss on the held-out rows, among
shares whose loss is below the network's own by `ERRORS` standard errors of the difference, paired
by rows; if there is none, s has the lowest upper confidence limit of that difference, which is at
or near the network, s = 1. Where rows are left out in turn, fits share rows, losses depend on each
other, and their standard error is too small (Bengio & Grandvalet 2004, JMLR 5:1089): `MORE_ERRORS`
are required.

Rows given as `validation` are trusted. Without them, rows that the network seems trained on cannot
choose (`held_out.Surprise`): the variance is then the mean square of the network's weights, its
mean is held to them, and the caller is warned.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.held_out import (
    FEWEST_ROWS,
    OUTPUTS,
    Fold,
    Logits,
    compute_logits,
    count_answers,
    join_rows,
    make_folds,
    measure_noise,
    measure_surprise,
    predict_log_probabilities,
    score,
    take_some,
)
from equivocal.sampling.prior_search import USUAL, Modes, Path, Prior
from equivocal.sampling.samplers.mean_field import RULE, Fit, run_gaussian

SHARES = np.arange(9) / 8  # of the network, s in (1)
ERRORS, MORE_ERRORS = 2.0, 3.0  # standard errors; more where rows are left out in turn
TOLERANCE = 0.5  # posterior sd before a fit's last step: a loss is then within hundredths of a nat
# A path's curvatures are averages over rows, and favour narrow priors where these are nearly
# separable: wider ones are tried, half a decade at a time, as long as the loss falls by this share.
LESS = 0.998
# warn if a given prior loses over 1 % more than the network, by at least three standard errors
WORSE, CERTAIN = 0.01, 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """The parts of the prior that the caller gave, and how to choose the rest."""

    mean: np.ndarray | None  # (K, D) or (1, D)
    variance: np.ndarray | None  # (D,) or (K, D); None: to be chosen
    trained: np.ndarray | None  # (K, D)
    validation: Problem | None
    groups: np.ndarray | None = None  # (N,)
    by_evidence: bool = False
    per_output: bool = False
    warning: str = ""  # about the validation rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A prior, and how its posterior compares on rows that were held out."""

    prior: Prior
    share: float = 0.0  # s of (1)
    network: np.ndarray | None = None  # W, (K, D)
    note: str = ""  # part of the verdict, `info.message`
    warning: str = ""
    measured: dict[str, float] = field(default_factory=dict)  # for `info.settings`
    loss: float = float("nan")  # on held-out rows, before the mean is moved
    start: Fit | None = None  # a fit nearby

    def move(self, problem: Problem, outcome: Outcome) -> Problem:
        """Return the problem in coordinates in which the outcome's mean is that of (1)."""
        if not self.share or self.network is None:
            return problem
        shift = self.share * (self.network - problem.to_weights(outcome.mean))
        return replace(problem, prior_mean=problem.prior_mean + shift.astype(problem.dtype))

    def record(self) -> dict[str, Any]:
        """Return plain values for `info.settings`."""
        found: dict[str, Any] = {k: v for k, v in self.measured.items() if np.isfinite(v)}
        sizes, widest = self.prior.size.tolist(), float(self.prior.variance.max())
        if np.isfinite(sizes).all():
            found["prior_variance"] = sizes[0] if len(sizes) == 1 else sizes
            if widest > max(sizes):
                found["intercept_variance"] = widest
        return found | ({"network_share": self.share} if self.share else {})


def choose_prior(problem: Problem, settings: RunSettings, asked: Question) -> Choice:
    """Choose the parts of the prior that are not given; compare the posterior with the network."""
    W, alone = asked.trained, asked.validation is None
    free = W is not None and asked.variance is None and asked.mean is None
    doubt, warning = ("", "") if W is None else _suspect(problem, asked, W)
    contest = Contest.set_up(problem, settings, asked)
    if alone and (problem.num_rows < FEWEST_ROWS or (free and doubt)):
        choice = _choose_without_rows(contest, free, doubt)
    else:
        choice = _choose_by_rows(contest, free)
        choice = replace(choice, note=choice.note + doubt)
    said = filter(None, (asked.warning, warning, choice.warning))
    return replace(choice, network=W, warning=" ".join(said))


def _suspect(problem: Problem, asked: Question, weights: np.ndarray) -> tuple[str, str]:
    """Return a note and a warning if the network seems trained on the rows that are to choose.

    Of rows given as validation it is warned only if they have no more loss than those of the fit.
    """
    rows = problem if asked.validation is None else asked.validation
    seen = measure_surprise(rows, weights)
    if not seen.knows:
        return "", ""
    numbers = f"NLL {seen.loss:.3g} where it expects {seen.expected:.3g}"
    note = f"; the network seems underconfident on these rows, or trained on them ({numbers})"
    warning = (
        "the network answers the rows that choose the prior better than its own probabilities "
        f"lead one to expect ({numbers}): it is underconfident, or was trained on them. "
    )
    if asked.validation is None:
        way_out = "pass rows that it has not seen as validation=(inputs, targets), which is trusted"
        return note, f"{warning}The mean is held to it; {way_out}."
    if seen.loss > measure_surprise(problem, weights).loss:
        return note, ""
    return note, f"{warning}In the latter case, pass rows that it has not seen."


def _choose_without_rows(contest: "Contest", free: bool, doubt: str) -> Choice:
    """Return the given prior, or one as wide as the network's weights, or of variance one."""
    W, N, given = contest.asked.trained, contest.problem.num_rows, contest.asked.variance
    reason = doubt or f"; {N:,} distinct row(s), where {FEWEST_ROWS} are needed to choose a prior"
    if W is not None and not doubt:
        reason += f"; the network's own NLL {measure_surprise(contest.problem, W).loss:.3g}"
    if given is not None:
        return Choice(prior=contest.keep(given), note=reason.removeprefix("; "))
    prior = contest.path.make_prior(1.0 if W is None else contest.path.measure_size(W))
    note = _describe(prior) + ", as wide as the trained weights" * (W is not None)
    if not free or W is None:
        return Choice(prior=prior, note=note + reason)
    return Choice(prior=prior, share=1.0, note=f"{note}; mean held to the network{reason}")


def _choose_by_rows(contest: "Contest", free: bool) -> Choice:
    """Choose the variance by held-out rows or the evidence, then the network's share."""
    asked, path = contest.asked, contest.path
    if asked.variance is not None:
        return contest.compare(contest.keep(asked.variance), free)
    if asked.by_evidence:
        path = replace(path, folds=[Fold(path.problem, path.problem)])
    prior = (path.search_each if asked.per_output else path.search)(asked.by_evidence)
    by = "the evidence" if asked.by_evidence else contest.rows
    if asked.by_evidence and asked.trained is None and asked.validation is None:
        return Choice(prior=prior, note=f"{_describe(prior)}, by {by}")
    choice = contest.compare(prior, free)
    while not asked.by_evidence and prior.size.max() < path.sizes[USUAL - 1]:
        prior = path.make_prior(choice.prior.size * np.sqrt(10))
        wider = contest.compare(prior, free)
        if not wider.loss < LESS * choice.loss:
            break
        choice = wider
    usual = choice.prior.size.max() < 2 * path.sizes[USUAL - 1]
    much = "" if usual else " (wider than usual: standardise the features)"
    return replace(choice, note=f"{_describe(choice.prior)}{much}, by {by}; {choice.note}")


def _describe(prior: Prior) -> str:
    """Return a prior in words, for the verdict."""
    least, most = (f"{end:.3g}" for end in (prior.size.min(), prior.size.max()))
    size = least if least == most else f"{least} to {most}"
    return f"prior variance {size} about {'its given mean' if prior.mean.any() else 'zero'}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """The rows that priors are fitted to, and those that they are compared by."""

    problem: Problem  # all rows and outputs
    asked: Question
    outputs: np.ndarray  # the outputs of the problem that the folds have
    path: Path
    settings: RunSettings

    @classmethod
    def set_up(cls, problem: Problem, settings: RunSettings, asked: Question) -> "Contest":
        """Choose the rows and outputs that are looked at."""
        most = problem.num_outputs if asked.per_output else OUTPUTS
        some, outputs, rows = take_some(problem, most)
        if asked.validation is None:
            folds = make_folds(some, None if asked.groups is None else asked.groups[rows])
        else:
            folds = [Fold(some, take_some(asked.validation, most)[0])]
        mean = np.zeros((1, problem.num_features)) if asked.mean is None else asked.mean
        quiet = replace(settings, report=None, observe=None, num_steps=None, brief=True)
        quiet = replace(quiet, tolerance=max(TOLERANCE, settings.tolerance))
        path = Path(some, folds, mean, outputs)
        return cls(problem=problem, asked=asked, outputs=outputs, path=path, settings=quiet)

    @property
    def rows(self) -> str:
        """The held-out rows in words, for the verdict."""
        number, N = sum(fold.held_out.num_rows for fold in self.path.folds), self.problem.num_rows
        if self.asked.validation is not None:
            return f"{number:,} held-out rows"
        return f"{number:,}{f' of {N:,}' if number < N else ''} rows left out in turn"

    def keep(self, variance: np.ndarray) -> Prior:
        """Return the prior as given, about the given mean or the network's weights."""
        W = self.asked.trained
        mean = W if self.asked.mean is None and W is not None else self.path.mean
        v = np.atleast_2d(variance).astype(np.float64) * np.ones(self.problem.num_features)
        return Prior(mean, v, v[:, 0] if (v == v[:, :1]).all() else np.full(1, np.nan))

    def fit(self, prior: Prior, problem: Problem) -> Fit:
        """Return the Gaussian fit; outputs with priors of their own are fitted in groups."""
        problem = prior.select(self.outputs).apply(problem)
        K, D = problem.num_outputs, problem.num_features
        mean, factor = np.empty((K, D), problem.dtype), np.empty((K, D, D), problem.dtype)
        for own, part in problem.split():
            outcome = run_gaussian(part, RULE, self.settings)
            assert outcome.factor is not None, "a flow gives a factor"
            mean[own] = part.to_weights(outcome.mean)[: len(own)]
            factor[own] = (outcome.factor * part.prior_scale[:, None])[: len(own)]
        return mean, factor

    def predict(self, prior: Prior) -> tuple[Logits, Fit | None]:
        """Return the logits of all held-out rows, and the first fit, if it has all outputs.

        Those of classes come from the most probable weights and their curvature.
        """
        folds = self.path.folds
        if self.problem.likelihood is Likelihood.SOFTMAX:
            modes = Modes([fold.fitted for fold in folds], prior)
            modes.find(prior)
            logits, start = [modes.predict(i, fold.held_out) for i, fold in enumerate(folds)], None
        else:
            fits = [self.fit(prior, fold.fitted) for fold in folds]
            pairs = zip(folds, fits, strict=True)
            logits = [compute_logits(fold.held_out, *fit) for fold, fit in pairs]
            start = fits[0] if len(self.outputs) == self.problem.num_outputs else None
        mean, variance = (np.concatenate(part) for part in zip(*logits, strict=True))
        return Logits(mean, variance), start

    def compare(self, prior: Prior, free: bool) -> Choice:
        """Return the prior with its loss, and a share of the network if that is free to choose.

        A given prior is worth a warning if it is clearly worse than the network.
        """
        rows = join_rows([fold.held_out for fold in self.path.folds])
        fit, start = self.predict(prior)
        W, alone = self.asked.trained, self.asked.validation is None
        answers = max(count_answers(rows), float(np.finfo(float).tiny))
        measure = "cross-validated NLL" if alone else "held-out NLL"
        if W is None:
            loss = float(score(rows, predict_log_probabilities(rows, fit)).sum()) / answers
            note, measured = f"{measure} {loss:.3g}", {"held_out_nll": loss}
            return Choice(prior=prior, note=note, measured=measured, loss=loss, start=start)
        network = Logits(rows.features @ W[self.outputs].T.astype(rows.dtype))
        trials = list(try_shares(rows, fit, network, SHARES if free else (0.0,)))
        errors, found, warning = MORE_ERRORS if alone else ERRORS, trials[0], ""
        own = (found.loss - found.difference) / answers
        if free:
            limits = [t.difference + errors * t.error for t in trials]
            better = [t for t, limit in zip(trials, limits, strict=True) if limit < 0]
            found = min(better, key=lambda t: t.loss, default=trials[int(np.argmin(limits))])
        loss = found.loss / answers
        note = f"{describe_share(found.share, fit, network)}{measure} {loss:.3g}"
        clear = found.difference - CERTAIN * found.error > WORSE * own * answers
        if clear and not free:
            warning = (
                f"the posterior is worse than the network on {self.rows} (NLL {loss:.3g}, the "
                f"network's {own:.3g}): use prior_variance='auto'."
            )
        return Choice(
            prior=prior,
            share=found.share,
            note=f"{note}, the network's own {own:.3g}",
            warning=warning,
            measured={"held_out_nll": loss, "network_nll": own},
            loss=trials[0].loss / answers,
            start=start,
        )


class Trial(NamedTuple):
    """A share of the network, with its loss beside the network's own."""

    share: float
    loss: float
    difference: float  # from the network's own loss
    error: float  # standard error of the difference


def try_shares(
    rows: Problem, fit: Logits, network: Logits, shares: Iterable[float]
) -> Iterator[Trial]:
    """Yield shares s of the network, (1), with their losses.

    The error is estimated from the rows, or from answers drawn from the network or the mixture if
    that is larger: where both are sure, and no unlikely answer occurred, the error over rows would
    be too small.
    """
    own = predict_log_probabilities(rows, network)
    theirs = score(rows, own).sum(axis=1)
    for s in shares:
        logits = Logits((1 - s) * fit.mean + s * network.mean, fit.variance)
        logs = predict_log_probabilities(rows, logits)
        losses = score(rows, logs).sum(axis=1)
        difference = losses - theirs
        variance = max(len(losses) * difference.var(), measure_noise(rows, logs, own))
        yield Trial(float(s), float(losses.sum()), float(difference.sum()), float(variance) ** 0.5)


def describe_share(share: float, fit: Logits, network: Logits) -> str:
    """Return where the mean is between the posterior's own and the network, for the verdict."""
    if not share:
        return ""
    shift = share * np.sqrt(((network.mean - fit.mean) ** 2 / np.asarray(fit.variance)).mean())
    what = "held to the network" if share == 1 else f"mixed with {share:.0%} of the network"
    return f"mean {what}, {shift:.2g} posterior sd from its own, spread the posterior's; "
