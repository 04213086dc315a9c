"""`Answer`: what was believed after each word, labelled, ready to be read, drawn and sent.

The object that `equivocal ask --json` prints and `/api/comprehend` sends is `Answer.to_dict`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.listener import Floats
from equivocal.errors import UserError, did_you_mean, join_names

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["TOP", "Answer", "Belief", "Heard"]

TOP = 4  # fillers of a role that are listed unless more are asked for
BELIEFS = ("mle", "bayes", "low", "high", "truth")


class Belief(NamedTuple):
    """How far one filler is believed to have a role."""

    filler: str
    mle: float  # the trained network
    bayes: float  # mean over the ensemble
    low: float  # 5 % quantile over the ensemble
    high: float  # 95 % quantile over the ensemble
    truth: float | None  # exact probability; None where the words so far are impossible
    said: bool  # the word has been heard


@dataclass(frozen=True)
class Heard:
    """One constituent of the sentence."""

    text: str  # as it was typed, less articles
    word: str  # as the world calls it
    takes_part: bool  # some event has it in one of `Answer.participants`


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Answer:
    """Beliefs after each word of one sentence.

    Arrays are (word, role, filler), with NaN for what is no candidate for a role.
    """

    sentence: str
    world: str
    network: str  # where it comes from
    prior_variance: float
    step: int | str  # of the paper's sampler, or "converged"
    time: float | None  # sampler time τ at that step; None for "converged"
    heard: tuple[Heard, ...]
    roles: tuple[str, ...]
    participants: tuple[str, ...]  # roles told by their place alone
    exact: bool  # whether `truth` is known
    fillers: tuple[str, ...]
    candidates: NDArray[np.bool_]  # (role, filler): what is listed for a role
    mle: Floats
    bayes: Floats
    low: Floats
    high: Floats
    truth: NDArray[np.float64]  # NaN where the words so far are impossible
    entropy: Floats  # (word, role): summed over the role's candidates, in nats
    epistemic: Floats  # (word, role): the part of `entropy` that is not knowing
    semantic_update: Floats  # (word,)
    indicated: dict[str, str] = field(default_factory=dict)  # what the order of the words says

    def __repr__(self) -> str:
        return f"<Answer to {self.sentence!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        from equivocal.asking.picture import as_html

        return as_html(self)

    @property
    def words(self) -> tuple[str, ...]:
        """One label per constituent, as typed."""
        return tuple(part.text for part in self.heard)

    @property
    def summary(self) -> str:
        """What it makes of the whole sentence, in plain words."""
        from equivocal.asking.summary import summary

        return summary(self)

    @property
    def uncertainty(self) -> Floats:
        """(word,): entropy in nats, averaged over roles."""
        total: Floats = self.entropy.mean(axis=1)
        return total

    @property
    def unknown_share(self) -> Floats:
        """(word,): the share of `uncertainty` that is not knowing; 0 where there is none."""
        total, unknown = self.uncertainty, self.epistemic.mean(axis=1)
        share: Floats = np.divide(unknown, total, out=np.zeros_like(total), where=total > 0)
        return share

    def possible(self, position: int) -> bool | None:
        """Whether some event of the world is told so, up to the word at `position`.

        None where that is not known, in a world too large to enumerate.
        """
        return bool(~np.isnan(self.truth[position]).all()) if self.exact else None

    def beliefs(self, position: int, role: str, top: int = TOP) -> list[Belief]:
        """The fillers believed most after a word.

        A heard word that could be a participant is listed for every such role, believed or not:
        whether the pizza eats is the question.
        """
        r, position = self.roles.index(role), self._place(position)
        best = self._order[position][r][:top]
        if role in self.participants:
            said = [self._number[p.word] for p in self.heard[: position + 1] if p.takes_part]
            best = list(dict.fromkeys([*best, *said]))
        return self._listed(position, r, best)

    def belief(self, position: int, role: str, filler: str) -> Belief:
        """How far one filler is believed to have one role after a word."""
        if role not in self.roles:
            raise UserError(f"unknown role {role!r}; roles are {join_names(self.roles)}.")
        if not self.considers(role, filler):
            known = [name for name in self.fillers if self.considers(role, name)]
            hint = did_you_mean(filler, known) or f"; there are {join_names(known)}."
            raise UserError(f"{filler!r} is not considered as {role}{hint}")
        r, f = self.roles.index(role), self.fillers.index(filler)
        return self._listed(self._place(position), r, [f])[0]

    def _place(self, position: int) -> int:
        """A position from 0, or from the end where it is negative."""
        size = len(self.heard)
        if not isinstance(position, int) or not -size <= position < size:
            raise UserError(
                f"position must be from 0 to {size - 1}, or -1 for the last word, got {position!r}."
            )
        return position % size

    def considers(self, role: str, filler: str) -> bool:
        """Whether a filler is a candidate for a role."""
        if filler not in self.fillers:
            return False
        return bool(self.candidates[self.roles.index(role), self.fillers.index(filler)])

    @cached_property
    def _order(self) -> list[list[list[int]]]:
        """[word][role]: the candidates, those believed most first."""
        strength = np.where(self.candidates, np.maximum(self.mle, self.bayes), -1)
        counts = self.candidates.sum(axis=1).tolist()
        return [
            [fillers[:count] for fillers, count in zip(roles, counts, strict=True)]
            for roles in np.argsort(-strength, axis=-1, kind="stable").tolist()
        ]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {filler: number for number, filler in enumerate(self.fillers)}

    @cached_property
    def _plain(self) -> list[list[list[list[float]]]]:
        """[name][word][role][filler]: taken out of the arrays once; one by one is slow."""
        return [getattr(self, name).tolist() for name in BELIEFS]

    def _listed(self, position: int, r: int, fillers: list[int]) -> list[Belief]:
        said = {part.word for part in self.heard[: position + 1]}
        mle, bayes, low, high, truth = (values[position][r] for values in self._plain)
        return [
            Belief(
                filler=self.fillers[f],
                mle=mle[f],
                bayes=bayes[f],
                low=low[f],
                high=high[f],
                truth=None if isnan(truth[f]) else truth[f],
                said=self.fillers[f] in said,
            )
            for f in fillers
        ]

    def to_dict(self, top: int = TOP) -> dict[str, Any]:
        """Plain lists, strings and numbers, as JSON has them."""
        if not isinstance(top, int) or top < 1:
            raise UserError(f"top must be a whole number of fillers, 1 or more, got {top!r}.")
        return {
            "sentence": self.sentence,
            "world": self.world,
            "network": self.network,
            "prior_variance": self.prior_variance,
            "step": self.step,
            "time": self.time,
            "words": self._words(top),
            "indicated": self.indicated,
            "summary": self.summary,
        }

    def _words(self, top: int) -> list[dict[str, Any]]:
        measures = (self.semantic_update, self.uncertainty, self.epistemic.mean(axis=1))
        return [
            {
                "word": part.text,
                "possible": self.possible(position),
                "roles": {
                    role: [belief._asdict() for belief in self.beliefs(position, role, top)]
                    for role in self.roles
                },
                "semantic_update": update,
                "entropy": entropy,
                "epistemic": epistemic,
            }
            for position, (part, update, entropy, epistemic) in enumerate(
                zip(self.heard, *(values.tolist() for values in measures), strict=True)
            )
        ]

    def to_xarray(self) -> "xr.Dataset":
        """Everything, with named dimensions."""
        import xarray as xr

        each, by_role = ("word", "role", "filler"), ("word", "role")
        return xr.Dataset(
            {
                **{name: (each, getattr(self, name)) for name in BELIEFS},
                **{name: (by_role, getattr(self, name)) for name in ("entropy", "epistemic")},
                "semantic_update": (("word",), self.semantic_update),
            },
            coords={
                "word": list(self.words),
                "role": list(self.roles),
                "filler": list(self.fillers),
            },
            attrs={
                "sentence": self.sentence,
                "world": self.world,
                "network": self.network,
                "prior_variance": self.prior_variance,
                "step": self.step,
            },
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """One row for each position, role and filler that is considered for the role."""
        dataset = self.to_xarray()
        words = ("position", np.arange(1, len(self.heard) + 1))
        dataset = dataset.rename(word="position").assign_coords(position=words)
        frame = dataset[list(BELIEFS)].to_dataframe().dropna(subset="mle").reset_index()
        frame.insert(1, "word", [self.words[position - 1] for position in frame["position"]])
        return frame

    def plot(self) -> "Figure":
        """A figure: for each word and role the fillers believed most, MLE beside Bayesian."""
        from equivocal.asking.picture import as_figure

        return as_figure(self)
