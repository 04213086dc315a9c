"""Choose the prior's variance by rows held out of the fit, or by the evidence.

Held-out rows are those given as `validation`, or parts of the rows themselves, left out in turn.
`prior_search` explains how priors are compared, by these rows or by the evidence, for all outputs
or for each; `prior_contest` how a fit is mixed with the network that the features come from. A
`Question` holds what the caller gave, a `Choice` the result.

Rows that a network was trained on cannot choose a prior (`held_out`). Where no others are given,
the posterior is held to the network, and the caller is warned.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.held_out import (
    FEWEST_ROWS,
    OUTPUTS,
    Fold,
    Surprise,
    make_folds,
    measure_surprise,
    take_some,
)
from equivocal.sampling.prior_contest import Candidate, Contest, Prior, measure_rows
from equivocal.sampling.prior_search import (
    DECADES,
    HALF,
    measure_limit,
    search,
    search_about_network,
    search_each,
    search_evidence,
)
from equivocal.sampling.samplers.mean_field import Fit

HELD = 1e-5  # variance of a typical logit where a posterior is held to the network
TOLERANCE = 0.5  # posterior sd before a fit's last step: a loss is then within hundredths of a nat
# warn if a given prior loses over 1 % more than the network, by at least three standard errors
WORSE, CERTAIN = 0.01, 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """The parts of the prior that the caller gave, and how to choose the rest."""

    mean: np.ndarray | None  # (K, D) or (1, D)
    variance: np.ndarray | None  # (D,) or (K, D); None: to be chosen
    trained: np.ndarray | None  # (K, D)
    validation: Problem | None
    by_evidence: bool = False
    per_output: bool = False
    warning: str = ""  # about the validation rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A prior, and how its posterior compares on rows that were held out."""

    prior: Prior
    share: float = 0.0  # s, the share of the network in `prior_contest` (1)
    network_weights: np.ndarray | None = None  # W, (K, D)
    note: str = ""  # part of the verdict, `info.message`
    warning: str = ""
    loss: float = float("nan")  # NLL of held-out rows
    network_loss: float = float("nan")
    bound: float = float("nan")  # on the log evidence
    start: Fit | None = None  # a fit nearby

    def mix(self, problem: Problem, outputs: np.ndarray) -> Problem:
        """Return the problem of some outputs in coordinates that give mixed weights.

        With θ = m₀ + √v w, (1 − s) θ + s W has the mean (1 − s) m₀ + s W and the scale (1 − s) √v.
        """
        if not self.share or self.network_weights is None:
            return problem
        s = problem.dtype.type(self.share)
        mean = (1 - s) * problem.prior_mean + s * self.network_weights[outputs]
        return replace(problem, prior_mean=mean, prior_scale=(1 - s) * problem.prior_scale)

    def record(self) -> dict[str, Any]:
        """Return plain values for `info.settings`."""
        numbers = {
            "held_out_nll": self.loss,
            "network_nll": self.network_loss,
            "evidence_bound": self.bound,
        }
        found: dict[str, Any] = {k: v for k, v in numbers.items() if np.isfinite(v)}
        sizes, widest = self.prior.size.tolist(), float(self.prior.variance.max())
        if np.isfinite(sizes).all():
            found["prior_variance"] = sizes[0] if len(sizes) == 1 else sizes
            if widest > max(sizes):
                found["intercept_variance"] = widest
        return found | ({"network_share": self.share} if self.share else {})


def choose_prior(problem: Problem, settings: RunSettings, asked: Question) -> Choice:
    """Choose the parts of the prior that are not given; compare a given prior with the network."""
    if problem.num_rows < FEWEST_ROWS and asked.validation is None:
        return _choose_without_rows(problem, asked)
    known = _recognise(problem, asked)
    if asked.variance is not None:
        contest = _set_up(problem, settings, asked, known)
        choice = _judge(contest, _keep(problem, asked), "prior_variance='auto'")
    elif asked.by_evidence:
        choice = _choose_by_evidence(problem, settings, asked, known)
    elif known is not None and asked.mean is None:
        note = (
            "held to the network, which seems trained on these rows "
            f"(NLL {known.loss:.3g}, where it expects {known.expected:.3g}); "
            "no others were given to compare it on"
        )
        choice = _hold(problem, asked, note)
    else:
        choice = _choose_by_rows(_set_up(problem, settings, asked, known), asked)
    warning = choice.warning if known is None else _explain_known(known)
    return replace(choice, warning=" ".join(filter(None, (asked.warning, warning))))


def _choose_without_rows(problem: Problem, asked: Question) -> Choice:
    """Return the given prior; else hold the posterior to the network, or take the variance one."""
    few, own = f"{problem.num_rows:,} row(s)", ""
    if asked.trained is not None:
        loss = measure_surprise(problem, asked.trained).loss
        own = f"the network's own NLL {loss:.3g} on {few}, too few to hold any out"
    if asked.variance is not None:
        return Choice(prior=_keep(problem, asked), note=own, warning=asked.warning)
    if asked.trained is not None and asked.mean is None:
        return _hold(problem, asked, f"held to the network; {own}", warning=asked.warning)
    prior = _keep(problem, replace(asked, variance=np.ones(1)))
    note = f"prior variance 1: with {few} none can be chosen"
    return Choice(prior=prior, note=f"{note}; {own}" if own else note, warning=asked.warning)


def _keep(problem: Problem, asked: Question) -> Prior:
    """Return the prior as given."""
    mean = asked.trained if asked.mean is None else asked.mean
    mean = _make_zero(problem) if mean is None else mean
    assert asked.variance is not None, "a variance is given"
    v = np.atleast_2d(asked.variance).astype(np.float64) * np.ones(problem.num_features)
    alike = (v == v[:, :1]).all()
    return Prior(mean, v, v[:, 0] if alike else np.full(1, np.nan))


def _make_zero(problem: Problem) -> np.ndarray:
    return np.zeros((1, problem.num_features), problem.dtype)


def _recognise(problem: Problem, asked: Question) -> Surprise | None:
    """Return the network's loss on the rows that would choose, if it was trained on them."""
    if asked.trained is None:
        return None
    rows = problem if asked.validation is None else asked.validation
    seen = measure_surprise(rows, asked.trained)
    return seen if seen.knows else None


def _set_up(
    problem: Problem, settings: RunSettings, asked: Question, known: Surprise | None
) -> Contest:
    """Return the rows and the network that candidates are compared by."""
    most = problem.num_outputs if asked.per_output else OUTPUTS
    some, outputs = take_some(problem, most)
    beside = None if asked.validation is None else take_some(asked.validation, most)[0]
    quiet = replace(settings, report=None, observe=None, num_steps=None, brief=True)
    return Contest(
        problem=problem,
        outputs=outputs,
        folds=[Fold(some, some)] if asked.by_evidence else list(make_folds(some, beside)),
        settings=replace(quiet, tolerance=max(TOLERANCE, settings.tolerance)),
        weights=None if asked.trained is None else asked.trained[outputs],
        given=beside is not None,
        known=known is not None,
    )


def _choose_by_rows(contest: Contest, asked: Question) -> Choice:
    """Choose the variance, and the share of the network, by held-out rows."""
    W, guarded = asked.trained, asked.trained is not None and asked.mean is None
    mean = _make_zero(contest.problem) if asked.mean is None else asked.mean
    free = contest if guarded else replace(contest, weights=None)
    found = (search_each if asked.per_output else search)(free, mean)
    best: Candidate | None = found
    if guarded and W is not None and measure_limit(contest, found) >= 0:
        best = search_about_network(contest, W)
    if best is None:
        assert contest.network_losses is not None, "only a network can be held to"
        loss = float(contest.network_losses.sum()) / contest.answers
        note = (
            f"held to the network: no prior does better on {contest.rows}; {contest.measure} "
            f"{loss:.3g}, as the network's own"
        )
        return _hold(contest.problem, asked, note, loss=loss, network_loss=loss)
    note = _describe(best.prior, asked.mean is None)
    if best.prior.size.max() * contest.unit > DECADES[-1] * HALF * 1.01:  # round-off
        note += " (wider than usual: standardise the features)"
    note += f", mixed with {best.share:.0%} of the network" if best.share else ""
    choice = _conclude(contest, best, f"{note}, by {contest.rows}; ")
    return replace(choice, network_weights=W)


def _choose_by_evidence(
    problem: Problem, settings: RunSettings, asked: Question, known: Surprise | None
) -> Choice:
    """Choose the variance by the evidence bound, then compare it with the network."""
    contest = _set_up(problem, settings, asked, known)
    mean = _make_zero(problem) if asked.mean is None else asked.mean
    prior, bound = search_evidence(contest, mean, asked.per_output)
    choice, note = Choice(prior=prior), f"{_describe(prior, False)}, by the evidence bound"
    if asked.trained is not None or asked.validation is not None:
        held_out = _set_up(problem, settings, replace(asked, by_evidence=False), known)
        choice = _judge(held_out, prior, "prior_choice='held-out'")
        note = f"{note}; {choice.note}"
    fitted = contest.folds[0].fitted
    whole = (fitted.num_outputs, fitted.num_rows) == (problem.num_outputs, problem.num_rows)
    return replace(choice, note=note, bound=bound if whole else float("nan"))


def _hold(problem: Problem, asked: Question, note: str, **about: Any) -> Choice:
    """Return a prior so narrow about the network's weights that the posterior stays there."""
    assert asked.trained is not None, "there is a network"
    narrow = np.full((1, problem.num_features), HELD / measure_rows(problem))
    return Choice(prior=Prior(asked.trained, narrow, narrow[:, 0]), note=note, **about)


def _judge(contest: Contest, prior: Prior, advice: str) -> Choice:
    """Compare a prior with the network; if it is worse, add a warning that ends in the advice."""
    found = next(contest.follow([prior]))
    choice = _conclude(contest, found, "")
    if contest.network_losses is None:
        return choice
    difference, error = contest.compare(found)
    if not difference - CERTAIN * error > WORSE:
        return choice
    warning = (
        f"the posterior is worse than the network on {contest.rows} (NLL {choice.loss:.3g}, the "
        f"network's {choice.network_loss:.3g}): use {advice}."
    )
    return replace(choice, warning=warning)


def _conclude(contest: Contest, found: Candidate, note: str) -> Choice:
    """Return a candidate as a choice; its losses are added to the note, which says what it is."""
    loss, network = found.loss / contest.answers, float("nan")
    note += f"{contest.measure} {loss:.3g}"
    if contest.network_losses is not None:
        network = float(contest.network_losses.sum()) / contest.answers
        note += f", the network's own {network:.3g}" + ", which knows these rows" * contest.known
    whole = len(contest.outputs) == contest.problem.num_outputs
    return Choice(
        prior=found.prior,
        share=found.share,
        note=note,
        loss=loss,
        network_loss=network,
        start=found.fits[0] if whole else None,
    )


def _describe(prior: Prior, network: bool) -> str:
    """Return a prior in words, for the verdict."""
    least, most = (f"{end:.3g}" for end in (prior.size.min(), prior.size.max()))
    size = least if least == most else f"{least} to {most}"
    named = "the trained weights" if network else "its given mean"
    return f"prior variance {size} about {named if prior.mean.any() else 'zero'}"


def _explain_known(seen: Surprise) -> str:
    return (
        f"the network answers these rows better (NLL {seen.loss:.3g}) than its own probabilities "
        f"allow ({seen.expected:.3g}): it was probably trained on them, and they cannot say how "
        "far to trust it. As validation=(inputs, targets), pass rows that training has not seen."
    )
