"""Networks and their ensembles in NumPy, and what they believe after each word.

The equations of a network are those of `equivocal.network.sentence_gestalt`; a test compares the
two. JAX takes a second to import and compiles anew for every sentence length, which is too slow for
one question.

The weights of output unit k are N(θ_k + δ_k, v (I − Σ_j l_j d_j d_jᵀ)): θ_k are trained, δ_k is
their `shift` by the data, v the prior's variance and l_j the share of it that the data removed
along `directions` d_j, few of them where the data say little. A feature vector ψ has the logit

    N( (θ_k + δ_k)·ψ,  v (|ψ|² − Σ_j l_j (d_j·ψ)²) )

The difference is taken in double precision: near the posterior it is small. From the logits follow
the beliefs of each network, and of all together: index 0 of an axis of voices is all networks
together, the others are single networks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.beliefs import Floats, compute_beliefs, join_beliefs
from equivocal.asking.vocabulary import Vocabulary

__all__ = ["Ensembles", "Heard", "LastLayers", "Listener", "listen", "spread"]

Doubles = NDArray[np.float64]


def has_network_shapes(weights: dict[str, np.ndarray], tokens: int, units: int) -> bool:
    """Return whether the arrays are shaped like the weights of a network with so many units."""
    shapes = {name: array.shape for name, array in weights.items()}
    hidden, gestalt, asked = (
        shapes.get(name, (0,))[0]
        for name in ("update.hidden_bias", "update.gestalt_bias", "query.hidden_bias")
    )
    return shapes == {
        "update.token_weight": (tokens, hidden),
        "update.hidden_bias": (hidden,),
        "update.recurrent_weight": (gestalt, hidden),
        "update.gestalt_weight": (hidden, gestalt),
        "update.gestalt_bias": (gestalt,),
        "query.gestalt_weight": (gestalt, asked),
        "query.probe_weight": (units, asked),
        "query.hidden_bias": (asked,),
        "query.output_weight": (asked, units),
        "query.output_bias": (units,),
    }


@dataclass(frozen=True, eq=False)
class NumpyNetwork:
    """A Sentence Gestalt network that is asked for roles and answers with some of its units.

    Its weights are named as in a network file; the probes' weights have a row for each role, the
    last layer's a column for each unit that is shown. Several networks of the same sizes are
    stacked into one, whose weights and results have an additional first axis (`stack`).
    """

    weights: dict[str, Floats]

    @classmethod
    def select(
        cls, weights: dict[str, Floats], probes: Floats, units: NDArray[np.intp]
    ) -> "NumpyNetwork":
        """Return a network with the weights of some probes, (probes, all units), and some units."""
        kept = {
            "query.probe_weight": probes @ weights["query.probe_weight"],
            "query.output_weight": weights["query.output_weight"][:, units],
            "query.output_bias": weights["query.output_bias"][units],
        }
        return cls({**weights, **kept})

    @classmethod
    def stack(cls, networks: "Sequence[NumpyNetwork]") -> "NumpyNetwork":
        """Stack several networks into one."""
        names = networks[0].weights
        return cls({name: np.stack([one.weights[name] for one in networks]) for name in names})

    @property
    def silence(self) -> Floats:
        """The gestalt before the first word, (…, gestalt)."""
        return np.zeros_like(self.weights["update.gestalt_bias"])

    def compute_gestalts(self, tokens: NDArray[np.int32], before: Floats | None = None) -> Floats:
        """Return the gestalt after each constituent.

        Parameters
        ----------
        tokens : (words, 2)
            Tokens of the word and the marker of each constituent; -1 where there is none.
        before : (…, gestalt), optional
            The gestalt after the constituents heard earlier.

        Returns
        -------
        (…, words, gestalt)
        """
        w = self.weights
        each = w["update.token_weight"][..., tokens, :]
        heard = np.where(tokens[..., None] >= 0, each, 0).sum(axis=-2)
        heard += w["update.hidden_bias"][..., None, :]
        gestalt, bias = self.silence if before is None else before, w["update.gestalt_bias"]
        after = []
        for t in range(len(tokens)):
            hidden = expit(heard[..., t, :] + _multiply(gestalt, w["update.recurrent_weight"]))
            gestalt = expit(_multiply(hidden, w["update.gestalt_weight"]) + bias)
            after.append(gestalt)
        return np.stack(after, axis=-2)

    def compute_features(self, gestalts: Floats) -> NDArray[np.float64]:
        """Return (ψ, 1), the input of the last layer, as (…, words, roles, D)."""
        w = self.weights
        # in double precision, as the logits are: rounding in single precision depends on the number
        # of words, and an answer must not depend on which words come from the cache
        from_gestalt = gestalts.astype(np.float64) @ w["query.gestalt_weight"]
        from_probe = w["query.probe_weight"] + w["query.hidden_bias"][..., None, :]
        psi = expit(from_gestalt[..., None, :] + from_probe[..., None, :, :])
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    @property
    def last_layer(self) -> Floats:
        """The trained weights and biases of the units, (…, units, D)."""
        weight, bias = self.weights["query.output_weight"], self.weights["query.output_bias"]
        return np.concatenate([weight, bias[..., None, :]], axis=-2).swapaxes(-1, -2)


def _multiply(vector: Floats, matrix: Floats) -> Floats:
    """Return vector × matrix for each network."""
    return np.asarray((vector[..., None, :] @ matrix)[..., 0, :])


def compute_semantic_update(gestalts: Floats, before: Floats | None = None) -> Floats:
    """Return how far each word moved the gestalt, Σ |g_t − g_{t−1}|, starting from zero.

    Rabovsky, Hansen and McClelland (2018) link this measure to the N400.

    Parameters
    ----------
    gestalts : (…, words, gestalt)
        The gestalt after each word.
    before : (…, gestalt), optional
        The gestalt before the first of them; zero at the beginning of a sentence.
    """
    first = np.zeros_like(gestalts[..., :1, :]) if before is None else before[..., None, :]
    return np.asarray(np.abs(np.diff(gestalts, axis=-2, prepend=first)).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class LastLayers:
    """The ensemble of last layers of one network, for the units that are shown, in their order."""

    variance: float  # v, the prior's variance
    shift: Floats  # δ, (units, D)
    loss: list[Doubles]  # l, (rank,) for each unit
    directions: list[Doubles]  # d, (rank, D) for each unit
    time: float | None  # τ of the paper's sampler; None where it has converged


@dataclass(frozen=True, eq=False)
class Listener:
    """A network, and a function that loads its last layers at a prior variance and a step."""

    network: NumpyNetwork
    load: Callable[[float, int | str], LastLayers]


class Logits(NamedTuple):
    """Logits as (networks, words, pairs) arrays.

    Pairs are (role, candidate): all candidates of the first role, then of the second, and so on.
    """

    trained: Floats
    mean: Floats  # over the ensemble
    sd: Floats


class _Removed(NamedTuple):
    """How much the data reduced the prior's variance, for some units of one network."""

    directions: Doubles  # (D, all ranks)
    loss: Doubles  # (all ranks,)
    starts: NDArray[np.intp]  # (units,): index of each unit's first direction

    @classmethod
    def collect(cls, layers: LastLayers, units: NDArray[np.intp]) -> "_Removed":
        nothing = np.zeros((1, layers.shift.shape[1]))  # for a unit without directions
        directions = [layers.directions[k] if len(layers.loss[k]) else nothing for k in units]
        loss = [layers.loss[k] if len(layers.loss[k]) else np.zeros(1) for k in units]
        sizes = np.array([len(each) for each in loss])
        joined = np.ascontiguousarray(np.concatenate(directions).T)
        return cls(joined, np.concatenate(loss), np.cumsum(sizes) - sizes)

    def add_up(self, psi: Doubles) -> Doubles:
        """Return Σ l (d·ψ)² of feature vectors (rows, D) as (rows, units)."""
        along = psi @ self.directions
        along *= along
        along *= self.loss
        return np.asarray(np.add.reduceat(along, self.starts, axis=1))


class _Group(NamedTuple):
    """Roles with the same candidates."""

    roles: list[int]
    pairs: NDArray[np.intp]  # (roles × candidates,): their indices among all pairs
    weights: Floats  # (networks, D, 2 × candidates): trained, and the ensembles' mean
    removed: list[_Removed]  # of each network


class Ensembles:
    """Last layers of all networks, arranged for the roles that need them.

    Parameters
    ----------
    layers : sequence of LastLayers
        The ensemble of each network.
    trained : (networks, units, D)
        The trained last layers θ.
    wanted : list of (candidates,) arrays
        For each role, the units of its candidates.
    """

    def __init__(
        self, layers: Sequence[LastLayers], trained: Floats, wanted: list[NDArray[np.intp]]
    ) -> None:
        self.times = [each.time for each in layers]
        self._variance = layers[0].variance
        mean = trained + np.stack([each.shift for each in layers])
        sizes = [len(units) for units in wanted]
        places = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        sharing: dict[bytes, list[int]] = {}
        for r, units in enumerate(wanted):
            sharing.setdefault(units.tobytes(), []).append(r)
        self._groups = [
            _Group(
                roles,
                np.concatenate([places[r] for r in roles]),
                np.concatenate([w[:, wanted[roles[0]]] for w in (trained, mean)], axis=1)
                .swapaxes(1, 2)
                .copy(),
                [_Removed.collect(each, wanted[roles[0]]) for each in layers],
            )
            for roles in sharing.values()
        ]

    def compute_logits(self, psi: Doubles) -> Logits:
        """Return the logits of features (networks, words, roles, D)."""
        networks, words, _, size = psi.shape
        pairs = sum(len(group.pairs) for group in self._groups)
        found = np.empty((3, networks, words, pairs), np.float32)
        for roles, places, weights, removed in self._groups:
            rows = psi[:, :, roles].reshape(networks, -1, size)
            both = (rows @ weights).reshape(networks, words, len(roles), 2, -1)
            left = np.einsum("nrd,nrd->nr", rows, rows)[..., None]
            left = left - np.stack([r.add_up(p) for r, p in zip(removed, rows, strict=True)])
            sd = np.sqrt(self._variance * np.maximum(left, 0))
            found[0][..., places] = both[..., 0, :].reshape(networks, words, -1)
            found[1][..., places] = both[..., 1, :].reshape(networks, words, -1)
            found[2][..., places] = sd.reshape(networks, words, -1)
        return Logits(*found)


class Heard(NamedTuple):
    """The results of networks after one word, or several (the last axis but one counts words)."""

    shown: Floats  # (4, voices, pairs): mle, bayes, low, high; pairs as in `Logits`
    doubt: Floats  # (2, voices, roles): entropy and its epistemic part, summed over candidates
    update: Floats  # (voices, 1): the semantic update
    gestalts: Floats  # (networks, gestalt)

    @classmethod
    def join(cls, words: "list[Heard]") -> "Heard":
        """Join the results of single words."""
        return cls(*(np.stack(each, axis=-2) for each in zip(*words, strict=True)))

    def split(self) -> "list[Heard]":
        """Split into the results of single words."""
        number = self.shown.shape[-2]
        return [Heard(*(each[..., t, :].copy() for each in self)) for t in range(number)]


def listen(
    network: NumpyNetwork,
    ensembles: Ensembles,
    tokens: NDArray[np.int32],
    words: Vocabulary,
    before: Floats | None = None,
) -> Heard:
    """Return what networks believe after each of (words, 2) tokens.

    `before` holds the gestalts of words that were heard earlier.
    """
    gestalts = network.compute_gestalts(tokens, before)
    logits = ensembles.compute_logits(network.compute_features(gestalts))
    alone = compute_beliefs(logits.mean, logits.sd)
    together = join_beliefs(alone, logits.mean, logits.sd)
    trained = expit(logits.trained)
    moved = compute_semantic_update(gestalts, before)
    each = np.stack([trained, *alone])
    all_ = np.stack([trained.mean(axis=0), *together])
    whole = np.concatenate([all_[:, None], each], axis=1)  # (6, voices, words, pairs)
    number = words.candidates.sum(axis=1)
    return Heard(
        shown=whole[:4],
        doubt=np.add.reduceat(whole[4:], np.cumsum(number) - number, axis=-1),
        update=np.concatenate([moved.mean(axis=0, keepdims=True), moved])[..., None],
        gestalts=gestalts,
    )


def spread(shown: Floats, words: Vocabulary) -> Floats:
    """Arrange values (…, pairs) as (…, role, filler), NaN where a filler is no candidate."""
    candidates = words.candidates
    whole = np.full((*shown.shape[:-1], candidates.size), np.nan, np.float32)
    whole[..., np.flatnonzero(candidates)] = shown
    return whole.reshape(*shown.shape[:-1], *candidates.shape)
