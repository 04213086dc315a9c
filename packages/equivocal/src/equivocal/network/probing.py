"""`Network`: a trained Sentence Gestalt with its world, its answers to a sentence, and its scores.

`Network` returns answers, gestalts, features and weights of the last layer as labelled arrays; the
equations are in `network`. `score` computes all measures of accuracy. Over held-out questions,
weighted by how often each is asked:

- `unit_accuracy`: share of output units on the right side of ½, all units counted;
- `all_zeros`: the unit accuracy of a model that leaves every unit off. It is high, because an
  answer switches on about 5 of 176 units, so `unit_accuracy` should be compared with it;
- `exact_match`: share of answers with *every* unit on the right side of ½: the filler and its role
  named without a mistake. Where several answers are possible, no model can reach 1;
  `exact_match_ceiling` is the score of a model that always gives the most probable answer, over
  all sentences of the world.

Against the exact beliefs of the world, over all prefixes and role probes weighted by probability:

- `belief_error`: mean |activation − P(unit = 1)| over the units that are possible (P > 0);
- `certain_right`: where the truth is certain (every P is 0 or 1), share of answers with every unit
  on the right side of ½.

The last three need an enumerated world; in one that is only sampled they are NaN.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from equivocal.network.questions import Questions, collect_questions, compute_features
from equivocal.network.sentence_gestalt import SentenceGestalt
from equivocal.network.storage import load_network
from equivocal.world import Corpus, Utterance, World
from equivocal.world.queries import Queries
from lastlayer.errors import UserError

__all__ = ["CERTAIN", "compute_activations", "score"]

CERTAIN = 1e-9  # enumerated probabilities are exact but for round-off of this order
BIAS = "bias"  # label of the constant feature that is appended to ψ


@dataclass(frozen=True, repr=False)
class Network:
    """One trained network and the world it was trained in."""

    model: SentenceGestalt
    world: World

    def __repr__(self) -> str:
        gestalt, hidden = self.model.query.gestalt_weight.shape
        return f"Network(world {self.world.name!r}, {hidden} hidden and {gestalt} gestalt units)"

    @classmethod
    def load(
        cls, directory: str | Path, index: int = 0, *, world: World | str | Path | None = None
    ) -> "Network":
        """Load one network of a run saved by `equivocal train` or `Run.save`.

        Parameters
        ----------
        directory : str or Path
            The folder of the run, which may have been copied from elsewhere.
        index : int
            Which of its networks, from 0.
        world : World, str or Path, optional
            The world that the network must belong to, or its name or path; by default that of the
            run's own world file.

        Returns
        -------
        Network
            The network, with the world that it was trained in.

        Raises
        ------
        UserError
            Where there is no such network, a file is damaged, or the world is another one.
        """
        if world is not None and not isinstance(world, World):
            world = World.load(world)
        return cls(*load_network(Path(directory), index, world))

    def comprehend(
        self, text: str | Utterance, probes: str | Sequence[str] | None = None
    ) -> xr.DataArray:
        """Compute the activation of every output unit after each word, for each probe.

        Parameters
        ----------
        text : str or Utterance
            A sentence, or a prefix of one.
        probes : str or sequence of str, optional
            Roles or words of the world (a filler, "what is the pizza here?"; see
            `World.find_filler_units`); by default all roles. A name that is both is the role.

        Returns
        -------
        DataArray
            With dimensions word, probe and unit.

        Raises
        ------
        UserError
            Where the world lacks a word of the sentence, or a probe is neither a role nor a word.
        """
        names = [probes] if isinstance(probes, str) else probes
        if names is None:
            names = self.world.roles
        if not isinstance(names, Sequence) or not names:
            raise UserError(f"probes are roles or words, at least one, got {probes!r}.")
        utterance = self.world.parse(text)
        activation = _answer(self.model, self._encode(utterance), self._encode_probes(names))
        labels = {"word": utterance.words, "probe": names, "unit": self.world.units}
        return _label("activation", activation, labels, self._describe(utterance))

    def probe_features(self, text: str | Utterance, probes: Sequence[str]) -> xr.DataArray:
        """Compute (ψ, 1), the input of the last layer after each word, for each probe.

        Parameters
        ----------
        text : str or Utterance
            A sentence, or a prefix of one.
        probes : sequence of str
            Roles or words of the world.

        Returns
        -------
        DataArray
            With dimensions word, probe and feature; the last feature is the constant 1.
        """
        utterance = self.world.parse(text)
        tokens, asked = self._encode(utterance), self._encode_probes(probes)
        psi = _add_bias(_compute_psi(self.model, tokens, asked))
        labels = {"word": utterance.words, "probe": probes, "feature": _name_features(psi)}
        return _label("features", psi, labels)

    def gestalts(self, text: str | Utterance) -> xr.DataArray:
        """Compute the gestalt layer after each word.

        Parameters
        ----------
        text : str or Utterance
            A sentence, or a prefix of one.

        Returns
        -------
        DataArray
            With dimensions word and gestalt.
        """
        utterance = self.world.parse(text)
        gestalts = self.model.listen(self._encode(utterance))
        labels = {"word": utterance.words, "gestalt": None}
        return _label("gestalt", gestalts, labels, self._describe(utterance))

    def last_layer(self) -> xr.DataArray:
        """Return θ, the weights of the last layer: one row per output unit, on (ψ, 1).

        Returns
        -------
        DataArray
            With dimensions unit and feature; the last feature is the bias.
        """
        query = self.model.query
        theta = np.concatenate([query.output_weight.T, query.output_bias[:, None]], axis=1)
        labels = {"unit": self.world.units, "feature": _name_features(theta)}
        return _label("last_layer", theta, labels)

    def _encode(self, utterance: Utterance) -> jax.Array:
        return jnp.asarray(self.world.encode(utterance))

    def _encode_probes(self, names: Sequence[str]) -> jax.Array:
        return jnp.asarray(
            np.stack([self.world.find_probe_units(name) for name in names]), jnp.float32
        )

    def _describe(self, utterance: Utterance) -> dict[str, str]:
        return {"world": self.world.name, "sentence": str(utterance)}


def _label(
    name: str,
    values: jax.Array | np.ndarray,
    labels: Mapping[str, Sequence[str] | None],
    about: dict[str, str] | None = None,
) -> xr.DataArray:
    """Give an array names of its dimensions and, where there are labels, coordinates."""
    coords = {axis: list(along) for axis, along in labels.items() if along is not None}
    return xr.DataArray(
        np.asarray(values), dims=tuple(labels), coords=coords, name=name, attrs=about
    )


def _add_bias(psi: jax.Array) -> np.ndarray:
    """Append the constant feature to ψ."""
    values = np.asarray(psi)
    return np.concatenate([values, np.ones_like(values[..., :1])], axis=-1)


def _name_features(values: np.ndarray) -> list[str]:
    return [*(f"psi{index}" for index in range(values.shape[-1] - 1)), BIAS]


@jax.jit
def _answer(
    model: SentenceGestalt, tokens: jax.Array, probes: jax.Array
) -> Float[jax.Array, "words probes units"]:
    return jax.nn.sigmoid(model.query.logits(_compute_psi(model, tokens, probes)))


@jax.jit
def _compute_psi(
    model: SentenceGestalt, tokens: jax.Array, probes: jax.Array
) -> Float[jax.Array, "words probes hidden"]:
    words, count = len(tokens), len(probes)
    word, probe = jnp.repeat(jnp.arange(words), count), jnp.tile(jnp.arange(count), words)
    psi = model.query.features(model.listen(tokens), probes, word, probe)
    return psi.reshape(words, count, -1)


def features(network: Network, corpus: Corpus) -> xr.Dataset:
    """Compute the input of the last layer for a corpus: one row per distinct (prefix, probe) pair.

    Parameters
    ----------
    network : Network
        The network whose ψ is computed.
    corpus : Corpus
        Sentences of the network's own world.

    Returns
    -------
    Dataset
        `features` is (ψ, 1); `counts` is how often the pair is asked; `targets` is the sum of its
        answers, so that each lies between 0 and the row's count. With these, the likelihood of a
        last layer is exactly that of all single questions. `heard` and `probe` name the prefix and
        the probe of each row; `last_word` is true where no sentence continues the prefix.

    Raises
    ------
    UserError
        Where the corpus is from another world.
    """
    if corpus.world.fingerprint != network.world.fingerprint:
        raise UserError(
            f"the corpus is from world {corpus.world.name!r}, the network from "
            f"{network.world.name!r}; sample the corpus from `network.world`."
        )
    queries = corpus.queries
    psi = _add_bias(_compute_features(network.model, collect_questions(corpus)))
    asked = queries.weight > 0
    node, probe, counts = queries.node[asked], queries.probe[asked], queries.weight[asked]
    ends = np.ones(len(corpus.tree.parent), bool)  # prefixes that no sentence continues
    ends[corpus.tree.parent[corpus.tree.parent >= 0]] = False
    return xr.Dataset(
        {
            "features": (("row", "feature"), psi[asked]),
            "targets": (("row", "unit"), queries.targets()[asked] * counts[:, None]),
            "counts": (("row",), counts),
        },
        coords={
            "feature": _name_features(psi),
            "unit": list(network.world.units),
            "heard": (("row",), np.array(corpus.beginnings)[node]),
            "probe": (("row",), np.array(queries.probe_names)[probe]),
            "last_word": (("row",), ends[node]),
        },
    )


_compute_features = jax.jit(compute_features)


@jax.jit
def _answer_questions(model: SentenceGestalt, questions: Questions) -> jax.Array:
    return jax.nn.sigmoid(model.query.logits(compute_features(model, questions)))


def compute_activations(
    models: Sequence[SentenceGestalt], corpus: Corpus
) -> Iterator[Float[np.ndarray, "pairs units"]]:
    """Yield the answers of each network to all questions about a corpus."""
    questions = collect_questions(corpus)
    for model in models:
        yield np.asarray(_answer_questions(model, questions))


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
    table = pd.DataFrame(rows).rename_axis("network")
    if not held_out.world.is_exact:
        unknown = ("exact_match_ceiling", "belief_error", "certain_right")
        return table.assign(**dict.fromkeys(unknown, np.nan))
    everything = held_out.world.all_derivations
    answers = compute_activations(models, everything)
    beliefs = [score_beliefs(answer, everything.queries) for answer in answers]
    ceiling = compute_exact_match_ceiling(everything.queries)
    return table.assign(exact_match_ceiling=ceiling).join(pd.DataFrame(beliefs))


def compute_exact_match_ceiling(queries: Queries) -> float:
    """Compute the share of cases in which the most probable answer to each question is right."""
    first = np.flatnonzero(np.diff(queries.triple_pair, prepend=-1))  # triples are sorted by pair
    return float(np.maximum.reduceat(queries.triple_weight, first).sum() / queries.weight.sum())


def compute_exact_match(answer: Float[np.ndarray, "pairs units"], queries: Queries) -> float:
    """Compute the share of answers whose every unit is on the right side of ½."""
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
