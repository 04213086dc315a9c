"""How well trained networks know their world. Every kind of accuracy is defined here.

Over held-out questions, weighted by how often each is asked:

- `unit_accuracy`: share of output units on the right side of ½, all units counted;
- `all_zeros`: the same for a model that always answers nothing. It is high, because an answer
  switches on about 5 of 176 units, and unit accuracy says little unless read beside it;
- `exact_match`: share of answers with *every* unit on the right side of ½: the filler and its role
  named without a mistake. Where the truth is open no model can reach 1; `exact_match_ceiling` is
  the score of one that always gives the most probable answer, over all sentences of the world.

Against the exact beliefs of the world, over all prefixes and role probes weighted by probability:

- `belief_error`: mean |activation − P(unit = 1)| over the units that are possible (P > 0);
- `certain_right`: where the truth is certain (every P is 0 or 1), share of answers with every unit
  on the right side of ½.

The last three need an enumerated world; in one that is only sampled they are NaN.
"""

from collections.abc import Iterator, Sequence

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float

from equivocal.gestalt.network import SentenceGestalt
from equivocal.gestalt.questions import Questions, collect_questions, compute_features
from equivocal.world import Corpus, Queries

__all__ = ["CERTAIN", "compute_activations"]

CERTAIN = 1e-9  # enumerated probabilities are exact but for round-off of this order


@jax.jit
def _answer(model: SentenceGestalt, questions: Questions) -> jax.Array:
    return jax.nn.sigmoid(model.query.logits(compute_features(model, questions)))


def compute_activations(
    models: Sequence[SentenceGestalt], corpus: Corpus
) -> Iterator[Float[np.ndarray, "pairs units"]]:
    """Compute the answers to every question about a corpus, network by network."""
    questions = collect_questions(corpus)
    for model in models:
        yield np.asarray(_answer(model, questions))


def score(models: Sequence[SentenceGestalt], held_out: Corpus) -> pd.DataFrame:
    """Score networks: one row per network with all the measures above.

    Parameters
    ----------
    models : sequence of SentenceGestalt
        The networks, all trained in the world of `held_out`.
    held_out : Corpus
        Sentences that training did not use.

    Returns
    -------
    DataFrame
        Indexed by network. Columns that compare with exact probabilities are NaN in a world too
        large to enumerate.
    """
    queries = held_out.queries
    share = queries.weight / queries.weight.sum()
    target = queries.targets()
    rows = [
        {
            "unit_accuracy": share @ np.where(answer > 0.5, target, 1 - target).mean(axis=1),
            "all_zeros": share @ (1 - target).mean(axis=1),
            "exact_match": compute_exact_match(answer, queries),
        }
        for answer in compute_activations(models, held_out)
    ]
    index = pd.RangeIndex(len(rows), name="network")
    columns = ["exact_match_ceiling", "belief_error", "certain_right"]
    against_truth = pd.DataFrame(np.nan, index=index, columns=columns)
    if held_out.world.is_exact:
        everything = held_out.world.all_derivations
        answers = compute_activations(models, everything)
        scores = [score_beliefs(answer, everything.queries) for answer in answers]
        against_truth = pd.DataFrame(scores, index=index)
        against_truth.insert(0, columns[0], compute_exact_match_ceiling(everything.queries))
    return pd.concat([pd.DataFrame(rows, index=index), against_truth], axis=1)


def compute_exact_match_ceiling(queries: Queries) -> float:
    """Compute the weight of the most probable answer to each question."""
    first = np.flatnonzero(np.diff(queries.triple_pair, prepend=-1))  # triples are sorted by pair
    return float(np.maximum.reduceat(queries.triple_weight, first).sum() / queries.weight.sum())


def compute_exact_match(answer: Float[np.ndarray, "pairs units"], queries: Queries) -> float:
    """Compute the weight of the answers whose every unit is on the right side of ½."""
    said = answer[queries.triple_pair] > 0.5
    hit = (said == queries.answer_units[queries.triple_answer]).all(axis=1)
    return float(queries.triple_weight @ hit / queries.triple_weight.sum())


def score_beliefs(answer: Float[np.ndarray, "pairs units"], queries: Queries) -> dict[str, float]:
    """Compute `belief_error` and `certain_right` of one network, over the whole world."""
    asked = queries.find_role_probes()
    truth, answer = queries.targets()[asked], answer[asked]
    weight = queries.weight[asked]
    possible = truth > CERTAIN
    error = np.where(possible, np.abs(answer - truth), 0.0).sum(axis=1)
    certain = ((truth < CERTAIN) | (truth > 1 - CERTAIN)).all(axis=1)
    right = ((answer > 0.5) == (truth > 0.5)).all(axis=1)
    return {
        "belief_error": float(weight @ error / (weight @ possible.sum(axis=1))),
        "certain_right": float(weight @ (certain & right) / (weight @ certain)),
    }
