"""The Sentence Gestalt trained by a plain PyTorch loop, with which `equivocal` is compared.

The same network, sentences and loss, in the most direct implementation: batches of sentences as
padded tensors, `nn.Linear` layers with PyTorch's own initial weights, Adam with the paper's
learning rate, one network at a time. After every constituent every probe is answered,

    L = Σ_(sentence, position, probe asked) Σ_k BCE(z_k, t_k) / number of those triples,

which is the `test_loss` of `equivocal.network.training`, where it is computed from distinct
questions. Padding is masked; leaving it out by indexing was tried and is no faster.

    from benchmarks.torch_reference import collect_data, fit, fit_recipe, split

`fit_recipe` follows the recipe `paper`, for `python -m benchmarks.recipes --only torch`; `fit` is
the loop that `python -m benchmarks.training` times. Needs torch, which the package itself does not.
"""

from copy import deepcopy
from time import perf_counter
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equivocal.network import SentenceGestalt, TrainingSettings
from equivocal.network.sentence_gestalt import QueryNetwork, UpdateNetwork
from equivocal.world import Corpus, World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.queries import list_constituents

__all__ = [
    "Data",
    "Epoch",
    "ReferenceNetwork",
    "collect_data",
    "compute_loss",
    "convert",
    "fit",
    "fit_recipe",
    "split",
]

# The paper does not state its weight decay; with none the reference has less to compute.
WEIGHT_DECAY = 0.0


class Data(NamedTuple):
    """Sentences as padded tensors; S sentences, T positions, Q = 2 × roles probes."""

    heard: Tensor  # (S, T, tokens): one or two ones where there is a constituent
    probe: Tensor  # (S, Q, units): each role, then the filler of each role
    target: Tensor  # (S, Q, units): role and filler
    asked: Tensor  # (S, T, Q): the position is not padding and the event has the role


class Epoch(NamedTuple):
    """The state of training after an epoch."""

    seconds: float  # of training so far, without evaluations
    held_out_loss: float


class ReferenceNetwork(nn.Module):  # type: ignore[misc, unused-ignore]  # Any without torch
    """Update and query network with logistic units; see `equivocal.network.sentence_gestalt`."""

    def __init__(self, num_tokens: int, num_units: int, hidden: int, gestalt: int) -> None:
        super().__init__()
        self.token = nn.Linear(num_tokens, hidden)
        self.recurrent = nn.Linear(gestalt, hidden, bias=False)
        self.gestalt = nn.Linear(hidden, gestalt)
        self.question = nn.Linear(gestalt, hidden)
        self.probe = nn.Linear(num_units, hidden, bias=False)
        self.output = nn.Linear(hidden, num_units)

    def forward(self, heard: Tensor, probe: Tensor) -> Tensor:
        """Return logits of the answer to each probe after each constituent, (S, T, Q, units)."""
        gestalt = heard.new_zeros(len(heard), self.gestalt.out_features)
        gestalts = []
        for word in self.token(heard).unbind(dim=1):
            hidden = torch.sigmoid(word + self.recurrent(gestalt))
            gestalt = torch.sigmoid(self.gestalt(hidden))
            gestalts.append(gestalt)
        known = self.question(torch.stack(gestalts, dim=1))
        features = torch.sigmoid(known[:, :, None] + self.probe(probe)[:, None])
        logits: Tensor = self.output(features)
        return logits


def split(world: World, settings: TrainingSettings) -> tuple[Corpus, Corpus]:
    """Return training and held-out sentences, the same ones as in `equivocal.network.runs`."""
    corpus = world.sample(settings.sentences, seed=settings.seed)
    rank = np.random.default_rng([settings.seed, 1]).permutation(settings.sentences)
    size = min(max(1, round(settings.held_out * settings.sentences)), settings.sentences - 1)
    return corpus.take(np.flatnonzero(rank >= size)), corpus.take(np.flatnonzero(rank < size))


def collect_data(corpus: Corpus) -> Data:
    """Return a corpus as tensors, one row per sentence."""
    world, rows = corpus.world, corpus.derivations
    tokens = list_constituents(rows, world.grammar)
    heard = np.zeros((*tokens.shape[:2], len(world.tokens)), dtype=np.float32)
    row, position, slot = np.nonzero(tokens != NO_FILLER)
    heard[row, position, tokens[row, position, slot]] = 1

    has = rows.fillers != NO_FILLER
    adds = np.stack([construction.adds for construction in world.grammar.constructions])
    added = world.grammar.added_features[adds[rows.construction]]
    meaning = (world.lexicon.features[rows.fillers] | added) & has[..., None]
    role = np.broadcast_to(np.eye(len(world.roles), len(world.units), dtype=bool), meaning.shape)
    answer = (meaning | role) & has[..., None]

    live = tokens[:, :, 0] != NO_FILLER
    asked = live[:, :, None] & np.concatenate([has, has], axis=1)[:, None]
    return Data(
        torch.from_numpy(heard),
        _make_floats(np.concatenate([role, meaning], axis=1)),
        _make_floats(np.concatenate([answer, answer], axis=1)),
        _make_floats(asked),
    )


def _make_floats(array: NDArray[np.bool_]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))


def compute_loss(network: ReferenceNetwork, data: Data) -> Tensor:
    """Return L over some sentences."""
    logits = network(data.heard, data.probe)
    each = nn.functional.binary_cross_entropy_with_logits(
        logits, data.target[:, None].expand_as(logits), reduction="none"
    ).sum(dim=-1)
    return (each * data.asked).sum() / data.asked.sum()


def take_pass(
    network: ReferenceNetwork,
    optimiser: torch.optim.Optimizer,
    train: Data,
    batch_size: int,
    divide_by: int = 1,
) -> None:
    """Take a step for each batch of a shuffled pass, on L divided by `divide_by`."""
    order = torch.randperm(len(train.heard)).to(train.heard.device)
    for batch in torch.split(order, batch_size):
        optimiser.zero_grad(set_to_none=True)
        loss = compute_loss(network, Data(*(tensor[batch] for tensor in train))) / divide_by
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimiser.step()


def fit_recipe(
    train: Data, held_out: Data, settings: TrainingSettings, *, seed: int
) -> tuple[ReferenceNetwork, list[float]]:
    """Train one network by Adam on mean cross-entropy; return it at its best epoch, and the losses.

    All settings of the recipe `paper` are used; initial weights are PyTorch's own, and so is the
    order of sentences.
    """
    torch.manual_seed(seed)
    num_tokens, num_units = train.heard.shape[-1], train.target.shape[-1]
    network = ReferenceNetwork(num_tokens, num_units, settings.hidden, settings.gestalt)
    network.to(train.heard.device)
    optimiser = torch.optim.Adam(
        network.parameters(),
        lr=settings.learning_rate,
        betas=(settings.momentum, settings.second_moment),
        weight_decay=settings.weight_decay,
    )
    losses: list[float] = []
    best = deepcopy(network.state_dict())
    for _ in range(settings.epochs):
        take_pass(network, optimiser, train, settings.batch, divide_by=num_units)
        with torch.no_grad():
            losses.append(float(compute_loss(network, held_out)))
        if losses[-1] == min(losses):
            best = deepcopy(network.state_dict())
        if len(losses) - 1 - int(np.argmin(losses)) >= settings.patience:
            break
    network.load_state_dict(best)
    return network, losses


def convert(network: ReferenceNetwork) -> SentenceGestalt:
    """Return the same network as one of `equivocal`."""

    def read(tensor: Tensor) -> jnp.ndarray:
        return jnp.asarray(tensor.detach().cpu().numpy().T)

    update = UpdateNetwork(
        token_weight=read(network.token.weight),
        recurrent_weight=read(network.recurrent.weight),
        hidden_bias=read(network.token.bias),
        gestalt_weight=read(network.gestalt.weight),
        gestalt_bias=read(network.gestalt.bias),
    )
    query = QueryNetwork(
        gestalt_weight=read(network.question.weight),
        probe_weight=read(network.probe.weight),
        hidden_bias=read(network.question.bias),
        output_weight=read(network.output.weight),
        output_bias=read(network.output.bias),
    )
    return SentenceGestalt(update, query)


def fit(
    train: Data,
    held_out: Data,
    settings: TrainingSettings,
    *,
    batch_size: int,
    epochs: int,
    seed: int,
    threads: int,
) -> tuple[ReferenceNetwork, list[Epoch]]:
    """Train one network for all `epochs`, with the sizes and learning rate of the settings."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    num_tokens, num_units = train.heard.shape[-1], train.target.shape[-1]
    network = ReferenceNetwork(num_tokens, num_units, settings.hidden, settings.gestalt)
    optimiser = torch.optim.Adam(
        network.parameters(), lr=settings.learning_rate, weight_decay=WEIGHT_DECAY
    )
    history: list[Epoch] = []
    seconds = 0.0
    for _ in range(epochs):
        began = perf_counter()
        take_pass(network, optimiser, train, batch_size)
        seconds += perf_counter() - began
        with torch.no_grad():
            history.append(Epoch(seconds, float(compute_loss(network, held_out))))
    return network, history
