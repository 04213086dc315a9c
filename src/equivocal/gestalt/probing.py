"""`Network`: a trained Sentence Gestalt with its world. Ask it a sentence, word by word."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import NDArray

from equivocal.errors import UserError, did_you_mean
from equivocal.gestalt.network import SentenceGestalt
from equivocal.gestalt.questions import Questions, features_of, questions_of
from equivocal.gestalt.storage import load_network
from equivocal.world import Corpus, UnknownWordError, Utterance, World, role_unit

__all__ = ["Network", "features"]

BIAS = "bias"  # label of the constant feature behind ψ


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
        """Network `index` of a run saved by `equivocal train` or `Run.save`.

        The run brings its own world file. Give `world` (or its name or path) to insist on one.
        """
        if world is not None and not isinstance(world, World):
            world = World.load(world)
        return cls(*load_network(Path(directory), index, world))

    def comprehend(
        self, text: str | Utterance, probes: str | Sequence[str] | None = None
    ) -> xr.DataArray:
        """Activation of every output unit after each word, for each probe.

        Probes are roles or words of the world (a filler, "what is the pizza here?"; see
        `World.filler_units`); by default all roles. A name that is both is taken as the role.
        """
        utterance = self.world.parse(text)
        names = [probes] if isinstance(probes, str) else probes
        if names is None:
            names = self.world.roles
        if not isinstance(names, Sequence) or not names:
            raise UserError(f"probes are roles or words, at least one, got {probes!r}.")
        patterns = jnp.asarray(np.stack([self._probe_units(name) for name in names]), jnp.float32)
        activation = _answer(self.model, jnp.asarray(self.world.encode(utterance)), patterns)
        return xr.DataArray(
            np.asarray(activation),
            dims=("word", "probe", "unit"),
            coords={
                "word": list(utterance.words),
                "probe": list(names),
                "unit": list(self.world.units),
            },
            name="activation",
            attrs={"world": self.world.name, "sentence": str(utterance)},
        )

    def probe_features(self, text: str | Utterance, probes: Sequence[str]) -> xr.DataArray:
        """(ψ, 1), what the last layer is given after each word, for each probe."""
        utterance = self.world.parse(text)
        patterns = jnp.asarray(np.stack([self._probe_units(name) for name in probes]), jnp.float32)
        psi = _psi(self.model, jnp.asarray(self.world.encode(utterance)), patterns)
        psi = np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)
        return xr.DataArray(
            psi,
            dims=("word", "probe", "feature"),
            coords={
                "word": list(utterance.words),
                "probe": list(probes),
                "feature": _feature_names(psi.shape[-1]),
            },
            name="features",
        )

    def gestalts(self, text: str | Utterance) -> xr.DataArray:
        """The gestalt layer after each word."""
        utterance = self.world.parse(text)
        gestalts = self.model.listen(jnp.asarray(self.world.encode(utterance)))
        return xr.DataArray(
            np.asarray(gestalts),
            dims=("word", "gestalt"),
            coords={"word": list(utterance.words)},
            name="gestalt",
            attrs={"world": self.world.name, "sentence": str(utterance)},
        )

    def last_layer(self) -> xr.DataArray:
        """θ, the weights of the last layer: one row per output unit, on the features (ψ, 1)."""
        query = self.model.query
        theta = np.concatenate([query.output_weight.T, query.output_bias[:, None]], axis=1)
        return xr.DataArray(
            theta,
            dims=("unit", "feature"),
            coords={"unit": list(self.world.units), "feature": _feature_names(theta.shape[1])},
            name="last_layer",
        )

    def _probe_units(self, name: str) -> NDArray[np.bool_]:
        world = self.world
        if name in world.roles:
            return world.lexicon.unit_mask((role_unit(name),))
        try:
            return world.filler_units(name)
        except UnknownWordError:
            hint = did_you_mean(name, [*world.roles, *world.lexicon.words])
            why = hint or "; give a role or one word of the world."
            raise UserError(f"unknown probe {name!r}{why}") from None
        except UserError as error:
            raise UserError(f"unknown probe {name!r}: {error}") from None


@jax.jit
def _answer(
    model: SentenceGestalt, tokens: jax.Array, probes: jax.Array
) -> Float[jax.Array, "words probes units"]:
    return jax.nn.sigmoid(model.query.logits(_psi(model, tokens, probes)))


@jax.jit
def _psi(
    model: SentenceGestalt, tokens: jax.Array, probes: jax.Array
) -> Float[jax.Array, "words probes hidden"]:
    words, count = len(tokens), len(probes)
    psi = model.query.features(
        model.listen(tokens),
        probes,
        jnp.repeat(jnp.arange(words), count),
        jnp.tile(jnp.arange(count), words),
    )
    return psi.reshape(words, count, -1)


def features(network: Network, corpus: Corpus) -> xr.Dataset:
    """What the last layer sees of a corpus: one row per distinct (beginning, probe) pair.

    `features` is (ψ, 1); `counts` says how often the pair is asked; `targets` adds up the answers,
    so that each lies between 0 and its row's count. With these, the likelihood of a last layer is
    exactly that of all single rows. `heard` and `probe` say what each row is about, `last_word`
    whether no longer sentence begins as it does.
    """
    if corpus.world.fingerprint != network.world.fingerprint:
        raise UserError(
            f"the corpus is from world {corpus.world.name!r}, the network from "
            f"{network.world.name!r}; sample the corpus from `network.world`."
        )
    questions = questions_of(corpus)
    psi = np.asarray(_features(network.model, questions))
    psi = np.concatenate([psi, np.ones((len(psi), 1), dtype=psi.dtype)], axis=1)
    counts = corpus.queries.weight
    asked = counts > 0
    return xr.Dataset(
        {
            "features": (("row", "feature"), psi[asked]),
            "targets": (("row", "unit"), (corpus.queries.targets() * counts[:, None])[asked]),
            "counts": (("row",), counts[asked]),
        },
        coords={
            "feature": _feature_names(psi.shape[1]),
            "unit": list(network.world.units),
            "heard": (("row",), np.array(corpus.beginnings)[corpus.queries.node[asked]]),
            "probe": (("row",), np.array(corpus.queries.probe_names)[corpus.queries.probe[asked]]),
            "last_word": (("row",), _ends(corpus)[corpus.queries.node[asked]]),
        },
    )


def _ends(corpus: Corpus) -> NDArray[np.bool_]:
    """Which beginnings are not continued by any sentence."""
    ends = np.ones(len(corpus.tree.parent), bool)
    ends[corpus.tree.parent[corpus.tree.parent >= 0]] = False
    return ends


@jax.jit
def _features(model: SentenceGestalt, questions: Questions) -> jax.Array:
    return features_of(model, questions)


def _feature_names(size: int) -> list[str]:
    return [*(f"psi{index}" for index in range(size - 1)), BIAS]
