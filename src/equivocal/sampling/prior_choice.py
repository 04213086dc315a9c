"""Choose the prior's variance, and about trained weights its mean, by rows held out of the fit.

Candidates are priors N(m₀, v I). With q = v · mean|ψ|², the variance of a typical row's logit under
the prior, v runs over decades of q and then half decades about the best. Without trained weights m₀
is what the caller gave. With them it is zero, or the trained weights over a temperature T ≥ 1: in
the limit v → 0 that is the network itself with its logits scaled.

Each candidate is fitted by the flow of `samplers.mean_field`, starting where its narrower neighbour
ended, and scored on rows that it was not fitted to (`held_out`). The least loss wins. Where there
is a network, only candidates take part that are not worse than it: mean difference + three standard
errors, paired by rows, at most `SLACK` of the network's loss; one standard error if the network is
overconfident (its loss on the rows is twice what it expects). If there is none, the posterior is
held to the network.

Rows that a network was trained on cannot choose: on them it answers better than its own
probabilities allow (`Surprise`). Where no other rows are given, the posterior is held to the
network, and the caller is warned.

The grid and the limits may be changed here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.held_out import (
    Fold,
    Surprise,
    count_answers,
    find_temperature,
    join_held_out,
    make_folds,
    measure_surprise,
    score_fit,
    score_network,
    take_some,
)
from equivocal.sampling.samplers.mean_field import choose_rule, run_gaussian

DECADES = [10.0**e for e in range(-3, 4)]  # of q
HALF = 10.0**0.5
HELD = 1e-5  # q of a posterior that is held to the network
RISEN, PATIENCE = 1.02, 2  # a path ends after so many scores that far above its best
FEWEST_ROWS = 10
TOLERANCE = 0.02  # posterior standard deviations
SLACK = 0.005  # of the network's loss
ERRORS, FEWER_ERRORS = 3.0, 1.0  # standard errors; fewer against a network that is overconfident
TIE = 0.001  # of the least loss
WORSE = 0.01  # of the network's loss, from which on a prior of the caller's is warned of

Fit = tuple[np.ndarray, np.ndarray]  # mean (K, D) and factor (K, D, D) of the weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A prior, and how its posterior compares on rows that were held out."""

    prior_mean: np.ndarray  # (K, D) or (1, D)
    prior_variance: np.ndarray  # ()  or (D,)
    note: str = ""  # for the verdict
    warning: str = ""
    loss: float = float("nan")  # NLL of held-out rows
    network_loss: float = float("nan")
    start: Fit | None = None  # a fit nearby


@dataclass(frozen=True, eq=False)
class Candidate:
    """A prior with its fits, one for each fold, and the loss of each held-out row."""

    prior_mean: np.ndarray  # of all outputs
    prior_variance: np.ndarray
    fits: list[Fit]
    losses: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """What candidates are fitted to and scored by."""

    problem: Problem  # rows and outputs that the choice looks at
    outputs: np.ndarray  # which of all outputs these are
    num_outputs: int  # of all
    folds: list[Fold]
    settings: RunSettings
    network: np.ndarray | None  # losses of the trained weights
    errors: float  # standard errors that a candidate must be better by
    strict: bool  # keep out candidates that are worse than the network

    @property
    def answers(self) -> float:
        """How many answers the losses are sums of."""
        return sum(count_answers(fold.held_out) for fold in self.folds)

    def follow(
        self, mean: np.ndarray, variances: Iterable[np.ndarray], start: Candidate | None = None
    ) -> Iterator[Candidate]:
        """Fit and score priors about one mean, from narrow to wide, until they only get worse."""
        best, risen = np.inf, 0
        fits: list[Fit | None] = [None] * len(self.folds)
        fits = fits if start is None else list(start.fits)
        for v in variances:
            found = Candidate(mean, v, *self._fit(mean, v, fits))
            yield found
            fits, loss = list(found.fits), found.losses.sum()
            risen = 0 if loss <= RISEN * best else risen + 1
            best = min(best, loss)
            if risen >= PATIENCE:
                return

    def _fit(
        self, mean: np.ndarray, variance: np.ndarray, starts: list[Fit | None]
    ) -> tuple[list[Fit], np.ndarray]:
        fits, losses = [], []
        p = self.problem
        D = p.num_features
        scale = np.broadcast_to(np.sqrt(variance), (D,)).astype(p.dtype)
        about = np.broadcast_to(mean, (self.num_outputs, D))[self.outputs].astype(p.dtype)
        for fold, start in zip(self.folds, starts, strict=True):
            problem = replace(fold.fitted, prior_mean=about, prior_scale=scale)
            outcome = run_gaussian(problem, choose_rule(problem), self.settings, start=start)
            assert outcome.factor is not None, "a flow gives a factor"
            fit = problem.to_weights(outcome.mean), outcome.factor * scale[:, None]
            fits.append(fit)
            losses.append(score_fit(fold.held_out, *fit))
        return fits, np.nan_to_num(np.concatenate(losses), nan=np.inf)

    def compare(self, candidate: Candidate) -> tuple[float, float]:
        """Return by how much of the network's loss a candidate is worse: at least, and at most."""
        assert self.network is not None, "there is a network to compare with"
        difference = candidate.losses - self.network
        if not np.isfinite(difference).all():
            return np.inf, np.inf
        error = self.errors * np.sqrt(len(difference)) * difference.std()
        total = max(float(self.network.sum()), np.finfo(float).tiny)
        return float(difference.sum() - error) / total, float(difference.sum() + error) / total

    def admits(self, candidate: Candidate) -> bool:
        """Return whether a candidate is not worse than the network, as far as can be told."""
        return self.network is None or not self.strict or self.compare(candidate)[1] <= SLACK


def choose_prior(
    problem: Problem,
    settings: RunSettings,
    *,
    prior_mean: np.ndarray | None,
    prior_variance: np.ndarray | None,
    trained: np.ndarray | None,
    validation: Problem | None,
) -> Choice:
    """Choose what is None; what is given is kept, and compared with the network."""
    zero = np.zeros((1, problem.num_features), problem.dtype)
    own = zero if trained is None else trained
    given = own if prior_mean is None else prior_mean
    if problem.num_rows < FEWEST_ROWS and validation is None:
        kept, note = prior_variance, ""
        if kept is None:
            note = f"prior variance 1: with {problem.num_rows:,} row(s) none can be chosen"
            kept = np.asarray(1.0)
        return Choice(prior_mean=given, prior_variance=kept, note=note)
    warning = "" if trained is None or validation is not None else _recognise(problem, trained)
    if warning and trained is not None and prior_mean is None and prior_variance is None:
        note = "held to the network, which knows these rows"
        return _hold(problem, trained, note=note, warning=warning)
    contest = _set_up(problem, settings, trained, validation, strict=prior_mean is None)
    if prior_variance is not None:
        only = next(contest.follow(given, [prior_variance]))
        choice = _conclude(contest, only, trained)
        return replace(choice, warning=warning or choice.warning)
    means = [given] if prior_mean is not None else _list_means(contest, zero, trained)
    best = _search(contest, means)
    if best is None and trained is not None:
        best = _search(contest, [trained])  # as wide about the network itself as costs nothing
    if best is not None:
        return replace(_conclude(contest, best, trained, chosen=True), warning=warning)
    assert contest.network is not None, "only a network keeps candidates out"
    loss = float(contest.network.sum() / contest.answers)
    note = (
        f"held to the network: no prior does better on {_describe_rows(contest)}; held-out NLL "
        f"{loss:.3g}, as the network's own"
    )
    return _hold(problem, own, note=note, loss=loss, network_loss=loss)


def _hold(problem: Problem, trained: np.ndarray, **about: Any) -> Choice:
    """Return a prior that is held to the network."""
    narrow = np.asarray(HELD / _measure_rows(problem))
    return Choice(prior_mean=trained, prior_variance=narrow, **about)


def _recognise(problem: Problem, trained: np.ndarray) -> str:
    """Return a warning if the network knows the rows, else nothing."""
    some, outputs = take_some(problem)
    seen = measure_surprise(some, trained[outputs])
    return _explain_known(seen) if seen.knows else ""


def _set_up(
    problem: Problem,
    settings: RunSettings,
    trained: np.ndarray | None,
    validation: Problem | None,
    *,
    strict: bool,
) -> Contest:
    """Return the rows and the network that candidates are compared by."""
    some, outputs = take_some(problem)
    folds = list(make_folds(some, None if validation is None else take_some(validation)[0]))
    quiet = replace(settings, report=None, observe=None, num_steps=None)
    network, errors = None, ERRORS
    if trained is not None:
        if measure_surprise(join_held_out(folds), trained[outputs]).overconfident:
            errors = FEWER_ERRORS
        network = np.concatenate([score_network(f.held_out, trained[outputs]) for f in folds])
    return Contest(
        problem=some,
        outputs=outputs,
        num_outputs=problem.num_outputs,
        folds=folds,
        settings=replace(quiet, tolerance=max(TOLERANCE, settings.tolerance)),
        network=network,
        errors=errors,
        strict=strict,
    )


def _measure_rows(problem: Problem) -> float:
    """Return the mean of |ψ|² over rows."""
    c = problem.row_counts.astype(np.float64)
    lengths = np.einsum("nd,nd->n", problem.features, problem.features, dtype=np.float64)
    return float(c @ lengths / max(c.sum(), 1e-300)) or 1.0


def _list_means(contest: Contest, zero: np.ndarray, trained: np.ndarray | None) -> list[np.ndarray]:
    """Return zero, and the trained weights over their best temperature where there are any."""
    if trained is None:
        return [zero]
    return [
        trained / find_temperature(join_held_out(contest.folds), trained[contest.outputs]),
        zero,
    ]


def _search(contest: Contest, means: list[np.ndarray]) -> Candidate | None:
    """Return the best candidate that is admitted: by decades, then by half decades about it."""
    unit = _measure_rows(contest.problem)
    decades = [np.asarray(q / unit) for q in DECADES]
    tried = [found for mean in means for found in contest.follow(mean, decades)]
    best = _find_best(contest, tried)
    if best is None:
        return None
    about = [np.asarray(best.prior_variance * step) for step in (1 / HALF, HALF)]
    near = [c for v in about for c in contest.follow(best.prior_mean, [v], best)]
    return _find_best(contest, [best, *near])


def _find_best(contest: Contest, tried: list[Candidate]) -> Candidate | None:
    """Return the admitted candidate of least loss, or another that is as good.

    That is a narrower one, as simpler; about a network a wider one, as it doubts more for nothing.
    """
    admitted = [candidate for candidate in tried if contest.admits(candidate)]
    best = min(admitted, key=lambda c: float(c.losses.sum()), default=None)
    if best is None:
        return None
    as_good = (1 + TIE) * best.losses.sum()
    alike = [c for c in admitted if c.prior_mean is best.prior_mean and c.losses.sum() <= as_good]
    doubtful = contest.network is not None and bool(best.prior_mean.any())
    return (max if doubtful else min)(alike, key=lambda c: float(c.prior_variance))


def _conclude(
    contest: Contest, best: Candidate, trained: np.ndarray | None, *, chosen: bool = False
) -> Choice:
    """Put the result into words."""
    loss = float(best.losses.sum()) / contest.answers
    note, network, warning = f"held-out NLL {loss:.3g}", float("nan"), ""
    if contest.network is not None:
        network = float(contest.network.sum()) / contest.answers
        note += f", the network's own {network:.3g}"
        if not chosen and contest.compare(best)[0] > WORSE:
            warning = (
                f"the posterior is worse than the network on {_describe_rows(contest)} (NLL "
                f"{loss:.3g}, the network's {network:.3g}): use prior_variance='auto'."
            )
    if chosen:
        named = "its given mean" if trained is None else "the trained weights"
        where = named if best.prior_mean.any() else "zero"
        v = float(best.prior_variance)
        note = f"prior variance {v:.3g} about {where}, by {_describe_rows(contest)}; {note}"
    whole = len(contest.outputs) == contest.num_outputs
    return Choice(
        prior_mean=best.prior_mean,
        prior_variance=best.prior_variance,
        note=note,
        warning=warning,
        loss=loss,
        network_loss=network,
        start=best.fits[0] if chosen and whole else None,
    )


def _describe_rows(contest: Contest) -> str:
    number = sum(fold.held_out.num_rows for fold in contest.folds)
    return f"{number:,} held-out row{'s' * (number != 1)}"


def _explain_known(seen: Surprise) -> str:
    return (
        f"the network answers these rows better (NLL {seen.loss:.3g}) than its own probabilities "
        f"allow ({seen.expected:.3g}): it was probably trained on them, and they cannot say how "
        "far to trust it. Pass validation=(inputs, targets), or rows that training has not seen."
    )
