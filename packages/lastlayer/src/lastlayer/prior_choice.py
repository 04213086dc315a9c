"""Choose the prior's variance by rows held out of the fit, or by the evidence.

Held-out rows are those given as `validation`, or parts of the rows themselves, left out in turn.
`prior_search` fits all priors of a grid; the one with the least loss on these rows is taken. A
`Question` holds what the caller gave, a `Choice` the result.

Where there is a network with weights W, the mean m of the posterior may be moved towards it,

    (1 − s) m + s W,        0 ≤ s ≤ 1,                                                         (1)

which mixes the logits of the two. The covariance is the posterior's whatever s is, so that
intervals have the width that the data leave. s has the least loss on the held-out rows, among
shares whose loss is below the network's own by `ERRORS` standard errors of the difference, paired
by rows; if there is none, s has the lowest upper confidence limit of that difference, which is at
or near the network, s = 1.

On rows that a network was trained on it predicts better than its own probabilities allow, and so
does an underconfident network on any rows: a reason for suspicion, no proof. Rows given as
`validation` are trusted. Without them, such rows cannot choose: the variance is then the mean
square of the network's weights, its mean is held to them, and the caller is warned.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from lastlayer.outcome import Outcome
from lastlayer.prior_search import (
    Logits,
    Path,
    arrange_answers,
    choose_values,
    find_intercepts,
    list_sizes,
    predict_logs,
)
from lastlayer.problem import Likelihood, Problem

FEWEST_ROWS = 30  # fewer choose no prior
ROWS = 8_000  # the most rows by which a prior is chosen
FOLDS = 5  # parts of the rows; they are left out one after another until enough rows have been
ENOUGH = 300  # rows, or groups of rows
RISEN = 1.02  # the path ends at a loss that is so many times the least one
TIE = 0.0005  # relative difference of losses that counts as none
# Of the grid's values so many are usual. Wider ones are tried as long as the loss falls, unless it
# is below this share of the narrowest prior's: where rows are separable it falls for ever.
USUAL, SEPARABLE = 15, 0.05
APPROACH = 10.0 ** np.arange(-3, 1)  # the path to a given prior, as shares of its variance
SHARES = np.arange(9) / 8  # of the network, s in (1)
ERRORS = 3.0  # standard errors
FAR = 0.5  # posterior sd: of a mean moved further the message says what intervals may miss
WORSE = 0.01  # warn if a given prior loses so much more than the network, by `ERRORS`
# A network is surprising if its loss is below this share of the loss that it expects, and below it
# by so many standard deviations.
KNOWN = 0.97, 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is to be chosen, and by which rows."""

    variance: bool  # whether the variance is to be chosen
    mean: bool  # whether the mean may be moved to the network
    trained: np.ndarray | None  # (K, D)
    validation: Problem | None
    groups: np.ndarray | None = None  # (N,)
    by_evidence: bool = False
    per_output: bool = False
    warning: str = ""  # about the validation rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """A problem with its prior, and how its posterior compares on rows that were held out."""

    problem: Problem
    note: str  # part of the verdict, `info.message`
    warning: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # for `info.settings`
    share: float = 0.0  # s of (1)
    network: np.ndarray | None = None  # W, (K, D)

    def move(self, outcome: Outcome) -> Problem:
        """Return the problem in coordinates in which the outcome's mean is that of (1)."""
        problem = self.problem
        if not self.share or self.network is None:
            return problem
        shift = self.share * (self.network - problem.to_weights(outcome.mean))
        return replace(problem, prior_mean=problem.prior_mean + shift.astype(problem.dtype))


def choose_prior(problem: Problem, asked: Question) -> Choice:
    """Choose the parts of the prior that are not given; compare the posterior with the network."""
    W, alone = asked.trained, asked.validation is None
    doubt, warning = ("", "") if W is None else _suspect(problem, asked, W)
    few = alone and _count_units(problem, asked) < FEWEST_ROWS
    if few or (alone and asked.variance and asked.mean and doubt):
        choice = _choose_without_rows(problem, asked, doubt)
    else:
        choice = _choose_by_rows(problem, asked)
        choice = replace(choice, note=choice.note + doubt)
    said = filter(None, (asked.warning, warning, choice.warning))
    return replace(choice, network=W, warning=" ".join(said))


def count_bytes(problem: Problem, asked: Question) -> int:
    """Return the bytes that a choice holds at most, besides the caller's own arrays."""
    rows = _divide_rows(problem, asked)
    K, D, size = problem.num_outputs, problem.num_features, problem.dtype.itemsize
    (F, N), M = rows.kept.shape, rows.held_out.num_rows
    width = K if problem.likelihood is Likelihood.SOFTMAX else 2 * K  # of a row's answers
    judged = width * (8 * M if asked.trained is None else 18 * max(M, N))
    # features; targets and counts of all fits; steps of the search, and the fits of 25 priors
    held = size * (5 * (N + M) * D + 3 * F * K * N + 85 * F * K * D) + 8 * 30 * F * K * D
    return held + max(9 * size * F * K * N, 8 * judged) + 8 * 6 * D * D


class Surprise(NamedTuple):
    """A network's loss for each answer, and whether its own probabilities let one expect more."""

    loss: float
    expected: float
    knows: bool


def measure_surprise(problem: Problem, weights: np.ndarray) -> Surprise:
    """Return a network's loss on rows, and the loss that its probabilities predict there."""
    problem, _ = _take_some(problem)
    answers = arrange_answers(problem)
    logs = predict_logs(problem, Logits(problem.features @ weights.T))
    c, y = answers.sum(axis=-1), np.exp(logs)
    entropy = -(y * logs).sum(axis=-1)
    sd = np.sqrt((c * ((y * logs**2).sum(axis=-1) - entropy**2)).sum())
    loss, expected = -(answers * logs).sum(), (c * entropy).sum()
    knows = loss < min(KNOWN[0] * expected, expected - KNOWN[1] * sd)
    return Surprise(float(loss / c.sum()), float(expected / c.sum()), bool(knows))


def _suspect(problem: Problem, asked: Question, weights: np.ndarray) -> tuple[str, str]:
    """Return a note and a warning if the network seems trained on the rows that are to choose.

    Of rows given as validation it is warned only if they have no more loss than those of the fit.
    """
    seen = measure_surprise(asked.validation or problem, weights)
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


def _choose_without_rows(problem: Problem, asked: Question, doubt: str) -> Choice:
    """Return the given prior, or one as wide as the network's weights, or of variance one."""
    W, N = asked.trained, _count_units(problem, asked)
    units = "distinct row(s)" if asked.groups is None else "group(s)"
    reason = doubt or f"; {N:,} {units}, where {FEWEST_ROWS} are needed to choose a prior"
    if W is not None and not doubt:
        reason += f"; the network's own NLL {measure_surprise(problem, W).loss:.3g}"
    if not asked.variance:
        return Choice(problem=problem, note=reason.removeprefix("; "))
    size = 1.0
    if W is not None:
        sizes, free = list_sizes(problem), find_intercepts(problem.features) == 0
        size = float(np.clip((W[:, free].astype(np.float64) ** 2).mean(), sizes[0], sizes[-1]))
    choice = _set_variance(problem, np.array([size]))
    note = choice.note + ", as wide as the trained weights" * (W is not None)
    if W is None or not asked.mean:
        return replace(choice, note=note + reason)
    variance = np.atleast_2d(choice.problem.prior_scale.astype(np.float64) ** 2)
    path = Path(problem, np.ones((1, problem.num_rows), bool), variance)
    path.fit(variance)
    psi, every = problem.features, np.zeros(problem.num_rows, int)
    note += f"; {_describe_move(1.0, path.predict(psi, every), psi @ W.T)}{reason}"
    return replace(choice, note=note, share=1.0, settings=choice.settings | {"network_share": 1.0})


def _make_variance(problem: Problem, size: np.ndarray) -> np.ndarray:
    """Return the prior variances (1 or K, D) of weights whose variance is v, (1 or K,)."""
    intercepts = find_intercepts(problem.features)
    wide = (intercepts > 0) & (not problem.prior_mean.any())
    return np.where(wide, intercepts, np.asarray(size, np.float64)[:, None])


def _set_variance(problem: Problem, size: np.ndarray) -> Choice:
    """Return the problem with prior variance v, (1 or K,), in words and in numbers."""
    variance = _make_variance(problem, size)
    scale = np.sqrt(variance if len(size) > 1 else variance[0]).astype(problem.dtype)
    least, most = (f"{end:.3g}" for end in (size.min(), size.max()))
    words = least if least == most else f"{least} to {most}"
    centre = "its given mean" if problem.prior_mean.any() else "zero"
    settings: dict[str, Any] = {
        "prior_variance": size.tolist() if len(size) > 1 else float(size[0])
    }
    if (widest := float(variance.max())) > size.max():
        settings["intercept_variance"] = widest
    note = f"prior variance {words} about {centre}"
    return Choice(problem=replace(problem, prior_scale=scale), note=note, settings=settings)


class Rows(NamedTuple):
    """Rows to fit and rows to compare by, and which fit has which."""

    fitted: Problem
    kept: np.ndarray  # (F, N): the rows of each fit
    held_out: Problem
    fits: np.ndarray  # (M,): the fit that each held-out row is predicted by
    words: str

    @property
    def total(self) -> float:
        """The number of answers: the sum of the counts over rows and yes/no outputs."""
        return float(arrange_answers(self.held_out).sum(dtype=np.float64))

    def measure_losses(self, logits: Logits) -> np.ndarray:
        """Return the losses of the held-out rows, (M, K), or (M, 1) for classes."""
        logs = predict_logs(self.held_out, logits)
        return np.asarray(-(arrange_answers(self.held_out) * logs).sum(axis=-1))


def _divide_rows(problem: Problem, asked: Question) -> Rows:
    """Return the validation rows as held-out rows, or else leave out parts of the rows in turn.

    A group's rows are left out together. For the evidence there is a fit of all rows, the last.
    """
    some, rows = _take_some(problem)
    N = some.num_rows
    if asked.validation is not None:
        held_out, every = _take_some(asked.validation)[0], np.ones((1, N), bool)
        words = f"{held_out.num_rows:,} held-out rows"
        return Rows(some, every, held_out, np.zeros(held_out.num_rows, int), words)
    names = np.arange(N) if asked.groups is None else asked.groups[rows]
    found, group = np.unique(names, return_inverse=True)
    parts = min(FOLDS, len(found))
    number = min(parts, -(-ENOUGH * parts // len(found)))
    part = (np.random.default_rng(0).permutation(len(found)) % parts)[group]
    left = part < number
    kept = np.where(left, part, -1) != np.arange(number + asked.by_evidence)[:, None]
    share = f" of {problem.num_rows:,}" if left.sum() < problem.num_rows else ""
    words = f"{left.sum():,}{share} rows left out in turn"
    return Rows(some, kept, _take_rows(some, left), part[left], words)


def _take_some(problem: Problem) -> tuple[Problem, np.ndarray]:
    """Return a problem of at most `ROWS` rows, and their numbers."""
    N = problem.num_rows
    if N <= ROWS:
        return problem, np.arange(N)
    rows = np.random.default_rng(0).choice(N, ROWS, replace=False)
    return _take_rows(problem, rows), rows


def _take_rows(problem: Problem, rows: np.ndarray) -> Problem:
    parts = {name: getattr(problem, name)[rows] for name in ("features", "targets", "counts")}
    return replace(problem, **parts)


def _choose_by_rows(problem: Problem, asked: Question) -> Choice:
    """Choose the variance by held-out rows or the evidence; compare with the network."""
    rows = _divide_rows(problem, asked)
    if not asked.variance:
        given = np.atleast_2d(problem.prior_scale.astype(np.float64) ** 2)
        path = Path(rows.fitted, rows.kept, APPROACH[0] * given)
        for share in APPROACH:
            path.fit(share * given)
        return _compare(Choice(problem=problem, note=""), rows, path, asked)
    sizes = list_sizes(rows.fitted)
    path = Path(rows.fitted, rows.kept, _make_variance(problem, sizes[:1]), asked.by_evidence)
    best = _follow(path, rows, [_make_variance(problem, v) for v in sizes[:, None]], asked)
    if asked.by_evidence:  # at the mode; the posterior's mean and variance are compared
        path.modes = False
        path.fit(_make_variance(problem, sizes[best]))
    choice = _set_variance(problem, sizes[best])
    usual = sizes[best].max() <= sizes[USUAL - 1]
    much = "" if usual else " (wider than usual: standardise the features)"
    by = "the evidence" if asked.by_evidence else rows.words
    note = f"{choice.note}{much}, by {by}; "
    return _compare(replace(choice, note=note), rows, path, asked)


def _follow(path: Path, rows: Rows, variances: list[np.ndarray], asked: Question) -> np.ndarray:
    """Fit all priors until the loss has risen; return the best, (1,) or one for each output, (K,).

    The path is left with the fits of these.
    """
    fits: list[tuple[np.ndarray, np.ndarray]] = []
    losses: list[np.ndarray] = []
    for number, variance in enumerate(variances):
        path.fit(variance)
        fits.append((path.u, path.inverse))
        held_out = rows.measure_losses(path.predict(rows.held_out.features, rows.fits))
        found = -path.estimate_evidence() if asked.by_evidence else held_out.sum(axis=0)
        losses.append(found if asked.per_output else found.sum(keepdims=True))
        least = np.min(losses[:-1], axis=0, initial=np.inf)
        ended = losses[-1] > (1 - TIE if number >= USUAL else RISEN) * least
        separable = losses[-1] < SEPARABLE * losses[0]
        if (ended | (separable & (number >= USUAL))).all():
            break
    table = np.array(losses)
    best = choose_values(-table) if asked.per_output else table.argmin(axis=0)
    outputs = np.arange(path.u.shape[1])
    for name, parts in zip(("u", "inverse"), zip(*fits, strict=True), strict=True):
        setattr(path, name, np.stack(parts)[best, :, outputs].swapaxes(0, 1))
    return best


def _compare(choice: Choice, rows: Rows, path: Path, asked: Question) -> Choice:
    """Return the choice with its loss, and a share of the network if that is free to choose.

    A given prior is worth a warning if it is clearly worse than the network.
    """
    fit, W, total = path.predict(rows.held_out.features, rows.fits), asked.trained, rows.total
    measure = "cross-validated NLL" if asked.validation is None else "held-out NLL"
    if W is None:
        loss = float(rows.measure_losses(fit).sum() / total)
        settings = choice.settings | {"held_out_nll": loss}
        return replace(choice, note=f"{choice.note}{measure} {loss:.3g}", settings=settings)
    network = rows.held_out.features @ W.T
    own = rows.measure_losses(Logits(network)).sum(axis=1)
    shares = SHARES if asked.mean else SHARES[:1]
    mixtures = [Logits(fit.mean + s * (network - fit.mean), fit.variance) for s in shares]
    differences = np.stack([rows.measure_losses(each).sum(axis=1) for each in mixtures]) - own
    difference, error = differences.sum(axis=1), len(own) ** 0.5 * differences.std(axis=1)
    limit = difference + ERRORS * error
    i = np.where(limit < 0, difference, np.inf).argmin() if limit.min() < 0 else limit.argmin()
    loss, theirs = (own.sum() + difference[i]) / total, own.sum() / total
    warning = ""
    if not asked.mean and difference[0] - ERRORS * error[0] > WORSE * own.sum():
        warning = (
            f"the posterior is worse than the network on {rows.words} (NLL {loss:.3g}, the "
            f"network's {theirs:.3g}): use prior_variance='auto'."
        )
    share = float(shares[i])
    moved = f"{_describe_move(share, fit, network)}; " if share else ""
    settings = {"held_out_nll": float(loss), "network_nll": float(theirs)}
    return replace(
        choice,
        share=share,
        note=f"{choice.note}{moved}{measure} {loss:.3g}, the network's own {theirs:.3g}",
        warning=warning,
        settings=choice.settings | settings | ({"network_share": share} if share else {}),
    )


def _describe_move(share: float, fit: Logits, network: np.ndarray) -> str:
    """Say where the mean is between the fit's own and the network, and what that costs."""
    from scipy.special import ndtr, ndtri

    shift = share * float(np.sqrt(((network - fit.mean) ** 2 / np.asarray(fit.variance)).mean()))
    what = "held to the network" if share == 1 else f"{share:.0%} of the way to the network"
    words = f"mean {what}, {shift:.2g} posterior sd from the posterior's own"
    if shift < FAR:
        return words
    z = float(ndtri(0.95))
    held = float(ndtr(z - shift) - ndtr(-z - shift))
    return f"{words}: about it 90 % intervals may hold the truth in only {held:.0%}"


def _count_units(problem: Problem, asked: Question) -> int:
    """Return the number of distinct rows, or of groups."""
    return problem.num_rows if asked.groups is None else len(np.unique(asked.groups))
