"""One network hears a sentence; several that heard it are joined.

Arrays are (word, pair) with the candidates of the first role, then of the second, and so on, until
`Heard.spread` puts them into (word, role, filler).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.beliefs import Beliefs, Floats, compute_beliefs, join_beliefs
from equivocal.asking.ensembles import Ensemble, Listener
from equivocal.asking.network import compute_semantic_update
from equivocal.asking.vocabulary import Vocabulary

__all__ = ["Heard", "listen"]


@dataclass(frozen=True, eq=False)
class Heard:
    """What a network, or several, made of a sentence."""

    mle: Floats  # the trained network's beliefs
    beliefs: Beliefs
    mean: Floats  # of the ensemble's logits
    sd: Floats
    semantic_update: Floats  # (word,)

    @classmethod
    def join(cls, alone: "list[Heard]") -> "Heard":
        """Join networks as equals: a mixture of their ensembles, the mean of everything else."""
        if len(alone) == 1:
            return alone[0]
        mean, sd = (np.stack([getattr(one, name) for one in alone]) for name in ("mean", "sd"))
        return cls(
            mle=np.mean([one.mle for one in alone], axis=0),
            beliefs=join_beliefs([one.beliefs for one in alone], mean, sd),
            mean=mean,
            sd=sd,
            semantic_update=np.mean([one.semantic_update for one in alone], axis=0),
        )

    def spread(self, words: Vocabulary) -> dict[str, Any]:
        """Return the arrays of an `Answer`, NaN for what is no candidate."""
        candidates = words.candidates

        def put(values: Floats) -> Floats:
            whole = np.full((len(values), *candidates.shape), np.nan, np.float32)
            whole[:, candidates] = values
            return whole

        named = {name: put(values) for name, values in self.beliefs._asdict().items()}
        summed = {name: np.nansum(named[name], axis=-1) for name in ("entropy", "epistemic")}
        return {
            **named,
            **summed,
            "mle": put(self.mle),
            "semantic_update": self.semantic_update,
        }


def listen(
    listener: Listener, ensemble: Ensemble, tokens: NDArray[np.int32], words: Vocabulary
) -> Heard:
    """Let a network hear (words, 2) tokens."""
    gestalts = listener.network.compute_gestalts(tokens)
    psi = listener.network.compute_features(gestalts)
    trained = psi @ listener.network.last_layer[words.places].T
    mean, sd = ensemble.compute_logits(psi)
    return Heard(
        mle=expit(trained[:, words.candidates]),
        beliefs=compute_beliefs(mean, sd),
        mean=mean,
        sd=sd,
        semantic_update=compute_semantic_update(gestalts),
    )
