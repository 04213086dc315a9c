"""Measures of what each word does to a comprehender; each function is one measure.

There are two kinds of input. A gestalt is the layer itself, (words, gestalt units). Beliefs are
given as logits a, (…, words, roles, units), so that nothing is clipped: y = σ(a) is a network's
degree of belief that a unit belongs to the answer when a role is asked, and units are taken as
independent of each other. With an ensemble of last layers the particles come first, (particles,
words, roles, units), and every particle is a comprehender of its own.

A network is never asked anything before the first word, so there are no beliefs that the first word
could change: measures that compare with the word before are NaN there. The gestalt before the first
word is silence, which is zero.

A new measure is a function and a line of `MEASURES`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats
from scipy.special import entr, expit

from lastlayer.errors import check_known

__all__ = [
    "MEASURES",
    "WordMeasure",
    "check_measures",
    "compute_surprise_by_role",
    "estimate_share_interval",
]

NEGLIGIBLE_ENTROPY = 1e-9  # nats; a share of less is round-off


def semantic_update(
    gestalts: Float[np.ndarray, "*others words gestalt"],
) -> Float[np.ndarray, "*others words"]:
    """Compute how far each word moves the gestalt: Σ_i |g_i(t) − g_i(t−1)|, from silence on.

    Source: Rabovsky, Hansen & McClelland (2018), Nature Human Behaviour 2, 693–705.
    Linking hypothesis: the amplitude of the N400. The gestalt stands for an implicit probability
    distribution over the meaning of the sentence, and the N400 for how much a word changes it.
    """
    silence = np.zeros_like(gestalts[..., :1, :])
    return np.asarray(np.abs(np.diff(gestalts, axis=-2, prepend=silence)).sum(axis=-1))


def compute_surprise_by_role(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words roles"]:
    """Compute KL(beliefs after the word ‖ beliefs before it) for each role, in nats.

    For one unit with logits a after and b before, KL = σ(a)(a − b) − log(1+eᵃ) + log(1+eᵇ); a
    role's is the sum over units. NaN at the first word.
    """
    a, b = logits[..., 1:, :, :], logits[..., :-1, :, :]
    divergence = expit(a) * (a - b) - np.logaddexp(0, a) + np.logaddexp(0, b)
    # round-off must not make a distance negative
    return np.insert(np.maximum(divergence, 0).sum(axis=-1), 0, np.nan, axis=-2)


def bayesian_surprise(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute how far each word moves the beliefs, in nats: surprise summed over roles.

    For particles it is that of their mean belief, KL(E[y_t] ‖ E[y_{t−1}]), the divergence of
    successive predictive distributions.

    Source: Itti & Baldi (2009), Vision Research 49, 1295–1306, for the divergence from prior to
    posterior as surprise; Rabovsky et al. (2018) call the change of the implicit distribution so.
    Linking hypothesis: the N400, as for the semantic update, but read off what the network would
    answer: a change of the gestalt that changes no answer does not count. Exploratory.
    """
    return np.asarray(compute_surprise_by_role(logits).sum(axis=-1))


def entropy(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute the entropy of the beliefs after each word, summed over roles and units, in nats."""
    return np.asarray(_compute_unit_entropy(logits).sum(axis=(-2, -1)))


def entropy_reduction(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute how much less uncertain the beliefs are after a word: H(t−1) − H(t), in nats.

    For particles it is that of their mean belief, H(E[y_{t−1}]) − H(E[y_t]).

    Source: Hale (2006), Cognitive Science 30, 643–672, there over parses, and set to zero where
    uncertainty grows. We keep the sign, since a mean of truncated values would hide the growth.
    Linking hypothesis: reading time grows with the uncertainty that a word removes. Exploratory:
    no N400 is predicted by it.
    """
    return np.insert(-np.diff(entropy(logits), axis=-1), 0, np.nan, axis=-1)


def epistemic_share(
    logits: Float[np.ndarray, "particles *others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute the share of uncertainty, 0 to 1, that more experience would remove, after each word.

        Σ ( H(E[y]) − E[H(y)] ) / Σ H(E[y])        sums over roles and units, E over particles

    Source: the decomposition of Depeweg, Hernández-Lobato, Doshi-Velez & Udluft (2018), ICML, 1184–
    1193 (mutual information of answer and weights over total entropy).
    Linking hypothesis: ours; a comprehender who is uncertain of its own knowledge rather than the
    event treats the input as anomalous (reanalysis, P600, regressions). Exploratory.
    """
    logits = np.asarray(logits, float)
    return _compute_share(expit(logits).mean(axis=0), entropy(logits).mean(axis=0))


def estimate_share_interval(
    logits: Float[np.ndarray, "particles *others words roles units"], level: float = 0.95
) -> tuple[Float[np.ndarray, "*others words"], Float[np.ndarray, "*others words"]]:
    """Compute the low and high end of `epistemic_share` over particles, by the jackknife.

    The share belongs to all particles together, so it has no spread over them; the interval is
    about its sampling error. Leaving out each of J in turn gives shares s_j, and the variance
    (J−1)/J Σ (s_j − s̄)²; the interval is clipped to [0, 1].
    """
    J, logits = len(logits), np.asarray(logits, float)
    beliefs, uncertainty = expit(logits), entropy(logits)
    all_beliefs, all_uncertainty = beliefs.sum(axis=0), uncertainty.sum(axis=0)
    without = np.stack(
        [
            _compute_share(
                (all_beliefs - beliefs[j]) / (J - 1), (all_uncertainty - uncertainty[j]) / (J - 1)
            )
            for j in range(J)
        ]
    )
    half = stats.t.ppf(0.5 + level / 2, J - 1) * np.sqrt((J - 1) * without.var(axis=0))
    share = epistemic_share(logits)
    return np.maximum(share - half, 0), np.minimum(share + half, 1)


def _compute_share(beliefs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Compute information over total entropy, from mean beliefs and the mean of their entropy."""
    beliefs = np.clip(beliefs, 0, 1)  # a sum less one of its terms may leave by round-off
    total = (entr(beliefs) + entr(1 - beliefs)).sum(axis=(-2, -1))
    return np.asarray(np.maximum(total - expected, 0) / np.maximum(total, NEGLIGIBLE_ENTROPY))


def _compute_unit_entropy(logits: np.ndarray) -> np.ndarray:
    """Compute H(σ(a)) = log(1+eᵃ) − a σ(a), written for |a| so that it stays exact far out."""
    size = np.abs(logits)
    small = np.exp(-size)
    return np.asarray(size * small / (1 + small) + np.log1p(small))


@dataclass(frozen=True)
class WordMeasure:
    """A measure, with its properties for tables and figures."""

    title: str
    of: Callable[[np.ndarray], np.ndarray]
    reads: str  # "gestalt", "beliefs", or "ensemble": all particles together
    exploratory: bool
    signed: bool = False  # if it can be negative, ratios of condition means have no meaning


MEASURES = {
    "semantic_update": WordMeasure("semantic update", semantic_update, "gestalt", False),
    "bayesian_surprise": WordMeasure(
        "Bayesian surprise (nats)", bayesian_surprise, "beliefs", True
    ),
    "entropy_reduction": WordMeasure(
        "entropy reduction (nats)", entropy_reduction, "beliefs", True, signed=True
    ),
    "epistemic_share": WordMeasure("epistemic share", epistemic_share, "ensemble", True),
}


def check_measures(names: Iterable[str], where: str = "") -> None:
    """Refuse a name that is not a measure; `where` names the file that contains it."""
    for name in names:
        check_known(name, MEASURES, "measure", where)
