"""Answers, their file, and those that need no network.

A kind of uncertainty answers at each of its strengths. Without a network answer, from the sentences
that networks train on,

    half               ½ for every belief
    constant           the mean of the true beliefs of each condition and role: what someone answers
                       who knows how often a reversal is meant, and nothing of any sentence
    learner-counts, learner-pooled, learner-form
                       `equivocal.world.learning.learn`

They have one row for each corpus, whose network is "none".
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from safetensors.numpy import save_file
from scipy.special import entr

from equivocal.store import parse_json
from equivocal.store.files import refuse_mistakes
from equivocal.truth import CONDITIONS, ROLES, PooledBeliefs, ReversalQuestions
from equivocal.world import Corpus
from equivocal.world.learning import learn
from lastlayer.files import Shapes, read_tensors

__all__ = ["LEARNERS", "Answers", "Setting", "Strength"]

HEADER = "equivocal"
CERTAIN = 1e-16  # beliefs keep this distance from 0 and 1


class Setting(NamedTuple):
    """One strength of a kind of uncertainty, and its costs beyond those of a single network."""

    label: str
    value: float = np.nan  # step, b, rate, divisor or number of networks
    prior_variance: float = np.nan
    time: float = np.nan  # sampler time τ, for the paper's sampler
    seconds: float = 0.0
    megabytes: float = 0.0
    converged: bool | None = None  # None where nothing is sampled
    message: str = ""  # the verdict of a sampler


class Strength(NamedTuple):
    """A setting with the beliefs that it gives, (questions, units)."""

    setting: Setting
    beliefs: PooledBeliefs


@dataclass(frozen=True, eq=False)
class Answers:
    """Settings, and beliefs whose first axis is that of the settings, in single precision."""

    settings: tuple[Setting, ...]
    beliefs: PooledBeliefs

    @classmethod
    def collect(cls, strengths: Sequence[Strength]) -> "Answers":
        """Collect the beliefs of every strength of a kind."""
        settings, beliefs = zip(*strengths, strict=True)
        parts = (np.stack(part).astype(np.float32) for part in zip(*beliefs, strict=True))
        return cls(settings, PooledBeliefs(*parts))

    def save(self, path: Path) -> None:
        """Write a safetensors file, which `load` reads back."""
        arrays = {name: np.ascontiguousarray(part) for name, part in self.beliefs._asdict().items()}
        save_file(arrays, path, metadata={HEADER: json.dumps(self.settings)})

    @classmethod
    def load(cls, path: Path) -> "Answers":
        """Read answers, or raise `UnreadableError` if the file does not hold any."""
        settings: list[Setting] = []

        def check(about: dict[str, str], shapes: Shapes) -> None:
            settings.extend(Setting(*row) for row in parse_json(about[HEADER]))
            if shapes.keys() != set(PooledBeliefs._fields) or any(
                shape[:1] != (len(settings),) for shape in shapes.values()
            ):
                raise ValueError("it does not hold the answers of a network")

        with refuse_mistakes(path):
            _, arrays = read_tensors(path, check)
        return cls(tuple(settings), PooledBeliefs(**arrays))


def pool_certain(asked: ReversalQuestions, nouns: np.ndarray) -> PooledBeliefs:
    """Return beliefs without epistemic uncertainty about the two nouns of each question."""
    p = np.full((len(asked.truth), len(asked.units)), 0.5)
    np.put_along_axis(p, asked.nouns, nouns, axis=1)
    return PooledBeliefs(np.log(p), np.log1p(-p), entr(p) + entr(1 - p))


def answer_half(asked: ReversalQuestions, _heard: Corpus) -> Iterator[Strength]:
    """Answer ½."""
    half = np.full_like(asked.truth, 0.5)
    yield Strength(Setting("½ everywhere"), pool_certain(asked, half))


def answer_constant(asked: ReversalQuestions, _heard: Corpus) -> Iterator[Strength]:
    """Answer the mean of the true beliefs about the same noun in the same condition and role."""
    nouns = np.empty_like(asked.truth)
    for condition in range(len(CONDITIONS)):
        for role in range(len(ROLES)):
            own = (asked.condition == condition) & (asked.role == role)
            nouns[own] = asked.truth[own].mean(axis=0)
    yield Strength(Setting("by condition"), pool_certain(asked, nouns))


def answer_learner(
    asked: ReversalQuestions, heard: Corpus, prior: Literal["counts", "pooled", "form"]
) -> Iterator[Strength]:
    """Answer as a learner who heard the sentences that networks are trained on."""
    learner, units = learn(heard.world, heard, prior), list(asked.units)

    @cache
    def believe(item: int, condition: int, role: int) -> np.ndarray:
        """Return p and E[H(y)], with the exact mean and the spread of draws."""
        text = getattr(asked.items[item], CONDITIONS[condition])
        exact = learner.beliefs(text, ROLES[role]).to_numpy()[units]
        drawn = learner.members(text, ROLES[role])[:, units]
        mean, average, members = (
            np.clip(part, CERTAIN, 1 - CERTAIN) for part in (exact, drawn.mean(axis=0), drawn)
        )
        within = (entr(members) + entr(1 - members)).mean(axis=0)
        epistemic = entr(average) + entr(1 - average) - within
        return np.stack([mean, entr(mean) + entr(1 - mean) - epistemic])

    rows = zip(asked.item.tolist(), asked.condition.tolist(), asked.role.tolist(), strict=True)
    p, aleatoric = np.stack([believe(*row) for row in rows], axis=1)
    yield Strength(
        Setting("α = 1" if prior != "form" else "known form"),
        PooledBeliefs(np.log(p), np.log1p(-p), aleatoric),
    )


COUNTS = "learner-counts"
LEARNERS: dict[str, Callable[[ReversalQuestions, Corpus], Iterator[Strength]]] = {
    "half": answer_half,
    "constant": answer_constant,
    COUNTS: partial(answer_learner, prior="counts"),
    "learner-pooled": partial(answer_learner, prior="pooled"),
    "learner-form": partial(answer_learner, prior="form"),
}
