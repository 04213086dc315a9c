"""`Comprehenders`: a set of networks that answer together, whatever made them differ.

A posterior over weights, an ensemble of trained networks and MC dropout all amount to M networks
with the same layers. They are stored as one `SentenceGestalt` whose arrays have a first axis of
members. Their common belief is the mean of their beliefs, and its entropy is the sum of aleatoric
uncertainty (about the event) and epistemic uncertainty (about the weights),

    p̄ = E[y],     H(p̄) = E[H(y)] + I,

where I is the information that an answer would give about which member is right
(Depeweg et al. 2018).

Their arrays and costs are saved in a safetensors file; an array that all members share is written
once. Files are untrusted: world, names and shapes are checked before memory is allocated, and a
file that is refused raises `UnreadableError`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from safetensors.numpy import save_file

from equivocal.network import Network, SentenceGestalt
from equivocal.network.questions import Level, Questions, compute_features
from equivocal.network.storage import name_arrays
from equivocal.store import parse_json
from equivocal.world import Utterance, World, name_role_unit
from lastlayer.tensors import Shapes, read_tensors, refuse_mistakes

__all__ = ["Comprehenders", "load_members", "save_members"]

HEADER = "equivocal"  # the entry of a file's metadata that holds everything but arrays
FACTS = ("seconds", "passes", "message", "converged")  # fields of `Comprehenders` in the header
MOST_MEMBERS = 1_000_000


class PooledBeliefs(NamedTuple):
    """The mean belief of all members in each question and unit; logarithms do not underflow."""

    log_yes: Float[np.ndarray, "pairs units"]  # log p̄
    log_no: Float[np.ndarray, "pairs units"]  # log (1 − p̄)
    aleatoric: Float[np.ndarray, "pairs units"]  # E[H(y)]

    @property
    def belief(self) -> Float[np.ndarray, "pairs units"]:
        """The mean belief p̄."""
        return np.asarray(np.exp(self.log_yes))

    @property
    def entropy(self) -> Float[np.ndarray, "pairs units"]:
        """The total uncertainty H(p̄)."""
        yes, no = self.log_yes, self.log_no
        return np.asarray(-(np.exp(yes) * yes + np.exp(no) * no))

    @property
    def epistemic(self) -> Float[np.ndarray, "pairs units"]:
        """The epistemic uncertainty I; values below zero, due to round-off, count as zero."""
        return np.asarray(np.maximum(self.entropy - self.aleatoric, 0))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comprehenders:
    """M networks of one world, and their costs in addition to those of a single network.

    Attributes
    ----------
    kind : str
        What made the members differ.
    models : SentenceGestalt
        The members, as one network whose arrays all have a first axis of length M.
    world : World
        The world in which they were trained.
    seconds : float
        Time to make them, in addition to the training of one network.
    passes : int
        Number of passes of a network over the training corpus; 0 if not counted.
    message : str
        A remark on their quality, such as the diagnosis of a sampler.
    converged : bool or None
        Whether sampling converged; None if nothing was sampled.
    bytes_each : int or None
        Bytes needed to store a member, if fewer than its arrays have.
    """

    kind: str
    models: SentenceGestalt
    world: World
    seconds: float
    passes: int
    message: str = ""
    converged: bool | None = None
    bytes_each: int | None = None

    def __len__(self) -> int:
        return len(self.models.query.output_bias)

    def __repr__(self) -> str:
        return f"<{len(self)} comprehenders by {self.kind}; {self.message or 'nothing to add'}>"

    @property
    def bytes(self) -> int:
        """The storage needed beyond one network; an array that all members share adds nothing."""
        if self.bytes_each is not None:
            return self.bytes_each * len(self)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.models)]
        return sum(leaf.nbytes - leaf[0].nbytes for leaf in leaves if leaf.strides[0])

    def select(self, members: Sequence[int]) -> "Comprehenders":
        """Return a subset of the members.

        Parameters
        ----------
        members : sequence of int
            Numbers of the members, from 0.

        Returns
        -------
        Comprehenders
            With the costs and the message of all members.
        """
        chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[list(members)], self.models)
        return replace(self, models=chosen)

    def compute_beliefs(
        self, texts: Sequence[str | Utterance]
    ) -> Float[np.ndarray, "M texts roles units"]:
        """Compute the beliefs of each member about every role after the last word of each text.

        Parameters
        ----------
        texts : sequence of str or Utterance
            Sentences, or sentence prefixes, in the words of the world.

        Returns
        -------
        numpy.ndarray
            Activations, with axes (member, text, role, unit).
        """
        heard = [self.world.parse(text) for text in texts]
        questions = build_role_questions(self.world, heard)
        found = np.asarray(_compute_beliefs(jax.tree.map(jnp.asarray, self.models), questions))
        return found.reshape(len(self), len(heard), len(self.world.roles), -1)

    def pool(self, questions: Questions) -> PooledBeliefs:
        """Compute the mean belief of all members, question by question.

        Parameters
        ----------
        questions : Questions
            Pairs of a sentence prefix and a probe.

        Returns
        -------
        PooledBeliefs
            The mean beliefs, with their aleatoric and epistemic uncertainty.
        """
        found = _pool_beliefs(jax.tree.map(jnp.asarray, self.models), questions)
        return PooledBeliefs(*(np.asarray(part, np.float64) for part in found))


def replace_last_layers(
    model: SentenceGestalt, particles: Float[np.ndarray, "units M D"]
) -> SentenceGestalt:
    """Return members that differ only in their last layer (ψ, 1) → units."""
    theta = np.asarray(particles, np.float32).transpose(1, 2, 0)  # M D units
    members: SentenceGestalt = eqx.tree_at(
        lambda each: (each.query.output_weight, each.query.output_bias),
        share_weights(model, len(theta)),
        (theta[:, :-1], theta[:, -1]),
    )
    return members


def share_weights(model: SentenceGestalt, members: int) -> SentenceGestalt:
    """Return members that all share the arrays of one network, held in memory once."""
    shared: SentenceGestalt = jax.tree.map(
        lambda leaf: np.broadcast_to(np.asarray(leaf), (members, *leaf.shape)), model
    )
    return shared


@jax.jit
def _compute_beliefs(models: SentenceGestalt, questions: Questions) -> Array:
    """Compute beliefs member by member, so that only one member's hidden layers are in memory."""
    beliefs: Array = jax.lax.map(
        lambda model: jax.nn.sigmoid(model.query.logits(compute_features(model, questions))), models
    )
    return beliefs


@jax.jit
def _pool_beliefs(models: SentenceGestalt, questions: Questions) -> tuple[Array, Array, Array]:
    """Sum over members one by one, so that only the sums are in memory."""

    def add(
        total: tuple[Array, Array, Array], model: SentenceGestalt
    ) -> tuple[tuple[Array, Array, Array], None]:
        a = model.query.logits(compute_features(model, questions))
        yes, no = jax.nn.log_sigmoid(a), jax.nn.log_sigmoid(-a)
        entropy = -(jnp.exp(yes) * yes + jnp.exp(no) * no)
        log_yes, log_no, own = total
        return (jnp.logaddexp(log_yes, yes), jnp.logaddexp(log_no, no), own + entropy), None

    M = len(models.query.output_bias)
    shape = (len(questions.node), models.query.output_bias.shape[1])
    nothing = jnp.full(shape, -jnp.inf)
    (log_yes, log_no, own), _ = jax.lax.scan(add, (nothing, nothing, jnp.zeros(shape)), models)
    # by round-off the mean of M equal beliefs may exceed one
    mean_yes, mean_no = (jnp.minimum(part - jnp.log(M), 0) for part in (log_yes, log_no))
    return mean_yes, mean_no, own / M


def build_role_questions(world: World, heard: Sequence[Utterance]) -> Questions:
    """Build the questions about every role after the last word of each utterance.

    The utterances need not be possible in the world, so they share no prefixes.
    """
    S, roles = len(heard), len(world.roles)
    lengths = np.array([len(utterance) for utterance in heard])
    tokens = np.full((max(lengths), S, 2), -1, np.int32)  # −1, no token, past the end
    for number, utterance in enumerate(heard):
        tokens[: len(utterance), number] = world.encode(utterance)
    every = np.arange(S)
    parents = [np.zeros(S, int), *[every] * (len(tokens) - 1)]  # all begin in silence
    probes = np.stack([world.lexicon.mark_units((name_role_unit(role),)) for role in world.roles])
    return Questions(
        levels=tuple(
            Level(jnp.asarray(parent), jnp.asarray(level))
            for parent, level in zip(parents, tokens, strict=True)
        ),
        probes=jnp.asarray(probes, jnp.float32),
        node=jnp.asarray(np.repeat((lengths - 1) * S + every, roles)),
        probe=jnp.asarray(np.tile(np.arange(roles), S)),
    )


def save_members(members: Comprehenders, path: Path) -> None:
    """Write comprehenders to a file that `load_members` reads."""
    arrays = {name: np.asarray(array) for name, array in name_arrays(members.models).items()}
    once = {
        name: np.ascontiguousarray(array if array.strides[0] else array[:1], np.float32)
        for name, array in arrays.items()
    }
    about = {"fingerprint": members.world.fingerprint, "members": len(members)}
    about |= {name: getattr(members, name) for name in FACTS}
    save_file(once, path, metadata={HEADER: json.dumps(about)})


def load_members(path: Path, network: Network, kind: str) -> Comprehenders:
    """Load comprehenders from a file.

    Parameters
    ----------
    path : Path
        A file written by `save_members`.
    network : Network
        A network of the same world and sizes.
    kind : str
        What made the members differ.

    Raises
    ------
    UnreadableError
        Where the file is damaged, belongs to another world, or holds networks of another size.
    """
    single, about = name_arrays(network.model), {}

    def check(metadata: dict[str, str], shapes: Shapes) -> None:
        about.update(_read_header(metadata, network))
        sizes = (1, about["members"])
        if shapes.keys() != single.keys() or any(
            shape not in [(size, *single[name].shape) for size in sizes]
            for name, shape in shapes.items()
        ):
            raise ValueError("it holds networks of another size")

    with refuse_mistakes(path):
        # values are checked before they are broadcast: a small file may claim a million members
        _, arrays = read_tensors(path, check, finite=True)
    leaves = [
        np.broadcast_to(arrays[name], (about["members"], *leaf.shape))
        for name, leaf in single.items()
    ]
    return Comprehenders(
        kind=kind,
        models=jax.tree.unflatten(jax.tree.structure(network.model), leaves),
        world=network.world,
        **{name: about[name] for name in FACTS},
    )


def _read_header(metadata: dict[str, str], network: Network) -> dict[str, Any]:
    """Return the header of a file, after checking the world and the type of each entry."""
    about = parse_json(metadata.get(HEADER, "{}"))
    if not isinstance(about, dict) or about.get("fingerprint") != network.world.fingerprint:
        raise ValueError("it belongs to another world or version")
    if not 1 <= int(about["members"]) <= MOST_MEMBERS:
        raise ValueError(f"it holds {about['members']} members")
    if not isinstance(about["converged"], bool | None):
        raise ValueError("converged is neither true nor false")
    kinds = {"members": int, "seconds": float, "passes": int, "message": str}
    return about | {name: kind(about[name]) for name, kind in kinds.items()}
