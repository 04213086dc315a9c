"""`Answer`: the beliefs after each word of a sentence, as arrays, a table or JSON.

`Answer.to_dict` is the object that `equivocal ask --json` prints; its keys are a public
interface: do not rename them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.ensembles import Floats
from lastlayer.errors import UserError, check_known

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.asking.summary import Reading
    from equivocal.asking.warranted import Warrant
    from equivocal.world import Utterance

__all__ = ["NOTABLE", "TOP", "Answer", "Belief"]

TOP = 4  # how many fillers of a role are listed by default
NOTABLE = 0.05  # a filler of at least this exact probability is listed, believed or not
BELIEFS = ("mle", "bayes", "low", "high", "truth")


class Belief(NamedTuple):
    """The degree of belief that one filler has a role."""

    filler: str
    mle: float  # the trained network
    bayes: float  # mean over the ensemble
    low: float  # 5 % quantile over the ensemble
    high: float  # 95 % quantile over the ensemble
    truth: float | None  # exact probability; None where the words so far are impossible
    warranted: tuple[float, ...] | None  # of a learner who counted the same: belief, low, high
    said: bool  # whether the word has been heard


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Answer:
    """Beliefs after each word of one sentence.

    Arrays are (word, role, filler), with NaN where a filler is no candidate for a role.
    """

    sentence: str
    world: str
    network: str  # which networks answered, in words
    prior_variance: float
    step: int | str  # "converged", or a step of the paper's sampler
    time: float | None  # sampler time τ at that step; None for "converged"
    heard: "Utterance"  # constituents: as typed (`text`), as the world calls them (`word`)
    roles: tuple[str, ...]
    participants: tuple[str, ...]  # roles of who does what to whom (see `Vocabulary`)
    exact: bool  # whether `truth` is known
    fillers: tuple[str, ...]
    candidates: NDArray[np.bool_]  # (role, filler): whether the filler may be listed for the role
    mle: Floats
    bayes: Floats
    low: Floats
    high: Floats
    # exact probability that roles have these fillers, all together, after some words
    find_joint: Callable[["Utterance", dict[str, str]], float]
    warrant: "Warrant"  # what the sentences that the networks heard warrant
    truth: NDArray[np.float64]  # NaN where the words so far are impossible
    entropy: Floats  # (word, role): summed over the role's candidates, in nats
    epistemic: Floats  # (word, role): the epistemic part of `entropy`
    semantic_update: Floats  # (word,)
    indicated: dict[str, str] = field(default_factory=dict)  # role → word, by syntax alone
    verbs: dict[str, str] = field(default_factory=dict)  # action → its inflected form
    article: str = ""  # before nouns
    networks: tuple["Answer", ...] = ()  # the answer of each network alone

    def __repr__(self) -> str:
        return f"<Answer to {self.sentence!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        from equivocal.asking.rendering import render_html

        return render_html(self)

    @property
    def words(self) -> tuple[str, ...]:
        """The constituents, as typed."""
        return self.heard.words

    @property
    def summary(self) -> str:
        """The reading of the whole sentence, its rival and where the doubt lies, a line each."""
        return self.summarise()

    def summarise(self, position: int = -1) -> str:
        """Return the reading after a word, its rival, what is undecided and where the doubt lies.

        Parameters
        ----------
        position : int
            Position of the word, from 0; -1 is the last.

        Returns
        -------
        str
            Lines worded from the beliefs of the networks and, where it is known, the truth.

        Raises
        ------
        UserError
            Where the sentence has no such position.
        """
        from equivocal.asking.summary import summarise

        return summarise(self, self._check_position(position))

    def readings(self, position: int = -1) -> "list[Reading]":
        """Return who does what to whom after a word, as the networks read it, and the rival.

        Parameters
        ----------
        position : int
            Position of the word, from 0; -1 is the last.

        Returns
        -------
        list of Reading
            At most two; none while it is too early to tell. Networks are asked one question for
            each role, so beliefs are given for the parts; the exact probability, where the world
            has one, is that of the whole reading.

        Raises
        ------
        UserError
            Where the sentence has no such position.
        """
        from equivocal.asking.summary import find_readings

        return find_readings(self, self._check_position(position))

    @property
    def uncertainty(self) -> Floats:
        """Entropy after each word in nats, averaged over roles."""
        return np.asarray(self.entropy.mean(axis=1))

    @property
    def epistemic_share(self) -> Floats:
        """The epistemic share of `uncertainty` after each word; 0 where there is none."""
        total, epistemic = self.uncertainty, self.epistemic.mean(axis=1)
        return np.asarray(np.divide(epistemic, total, out=np.zeros_like(total), where=total > 0))

    @property
    def between(self) -> Floats:
        """The part of the epistemic uncertainty after each word that lies between networks.

        In nats, averaged over roles; the rest lies within the networks, in the weights of their
        last layers.
        """
        if not self.networks:
            return np.zeros_like(self.uncertainty)
        within = np.mean([one.epistemic for one in self.networks], axis=(0, 2))
        return np.asarray(np.maximum(self.epistemic.mean(axis=1) - within, 0))

    def is_possible(self, position: int) -> bool | None:
        """Return whether the words up to a position begin a sentence about some event of the world.

        Parameters
        ----------
        position : int
            Position of the last of these words, from 0.

        Returns
        -------
        bool or None
            None where it is unknown: in a world too large to enumerate.
        """
        return bool(~np.isnan(self.truth[position]).all()) if self.exact else None

    def beliefs(self, position: int, role: str, top: int = TOP) -> list[Belief]:
        """Return the fillers believed most after a word.

        Each word of the sentence that could be a participant is listed for every such role,
        however weakly it is believed, because the question is whether the pizza eats. So are the
        most probable fillers of at least 5 %, at most `top` of them.

        Parameters
        ----------
        position : int
            Position of the word, from 0; -1 is the last.
        role : str
            One of `roles`.
        top : int
            How many of them are listed.

        Returns
        -------
        list of Belief
            The fillers believed most come first.

        Raises
        ------
        UserError
            Where the sentence has no such position.
        """
        r, position = self.roles.index(role), self._check_position(position)
        return [self._get_belief(position, r, f) for f in self.choose_fillers(position, r, top)]

    def choose_fillers(self, position: int, r: int, top: int) -> list[int]:
        """Choose the fillers that `beliefs` lists, the most strongly believed first.

        Of equally strong beliefs, the filler that comes first in `fillers` comes first.

        Parameters
        ----------
        position, r : int
            Index of the word and of the role, from 0.
        top : int
            How many fillers to choose for the strength of belief.

        Returns
        -------
        list of int
            Indices into `fillers`.
        """
        considered = np.flatnonzero(self.candidates[r])
        strength = np.maximum(self.mle, self.bayes)[position, r, considered]
        best = considered[np.argsort(-strength, kind="stable")][:top].tolist()
        if self.roles[r] in self.participants:
            heard = self.heard.constituents[: position + 1]
            best += [
                self.fillers.index(p.word) for p in heard if self.considers(self.roles[r], p.word)
            ]
        truth = self.truth[position, r, considered]
        probable = considered[np.argsort(-truth, kind="stable")][:top]
        best += [f for f in probable.tolist() if self.truth[position, r, f] >= NOTABLE]
        return list(dict.fromkeys(best))

    def said(self, position: int) -> set[str]:
        """Return the set of words heard up to a position."""
        return {part.word for part in self.heard.constituents[: position + 1]}

    def belief(self, position: int, role: str, filler: str) -> Belief:
        """Return the belief that one filler has one role after a word.

        Parameters
        ----------
        position : int
            Position of the word, from 0; -1 is the last.
        role, filler : str
            A role, and one of its candidates.

        Returns
        -------
        Belief
            What the trained and the Bayesian networks believe, with the exact probability.

        Raises
        ------
        UserError
            Where there is no such position or role, or the filler is no candidate for it.
        """
        check_known(role, self.roles, "role")
        if not self.considers(role, filler):
            known = [name for name in self.fillers if self.considers(role, name)]
            check_known(filler, known, f"candidate for {role}")
        position, r = self._check_position(position), self.roles.index(role)
        return self._get_belief(position, r, self.fillers.index(filler))

    def _check_position(self, position: int) -> int:
        """Return a position from 0; a negative one counts from the end."""
        size = len(self.heard)
        if not isinstance(position, int) or not -size <= position < size:
            raise UserError(
                f"position must be from 0 to {size - 1}, or -1 for the last word, got {position!r}."
            )
        return position % size

    def considers(self, role: str, filler: str) -> bool:
        """Return whether a filler is a candidate for a role.

        Parameters
        ----------
        role : str
            One of `roles`.
        filler : str
            Any word; it need not be among `fillers`.

        Returns
        -------
        bool
            False also for a word that the world does not have.
        """
        known = filler in self.fillers
        return known and bool(self.candidates[self.roles.index(role), self.fillers.index(filler)])

    def _get_belief(self, position: int, r: int, f: int) -> Belief:
        at = position, r, f
        mle, bayes, low, high, truth = (float(getattr(self, name)[at]) for name in BELIEFS)
        filler = self.fillers[f]
        said = filler in self.said(position)
        known = None if isnan(truth) else truth
        return Belief(filler, mle, bayes, low, high, known, self._find_warranted(at), said)

    def _find_warranted(self, at: tuple[int, int, int]) -> tuple[float, ...] | None:
        found = self.warrant.find_beliefs(self.heard.first(at[0] + 1))
        if found is None or np.isnan(found[0, at[1], at[2]]):
            return None
        return tuple(found[:, at[1], at[2]].tolist())

    def to_dict(self, top: int = TOP) -> dict[str, Any]:
        """Return the answer as plain lists, strings and numbers, as JSON has them.

        Parameters
        ----------
        top : int
            How many fillers are listed for each role.

        Returns
        -------
        dict
            What `equivocal ask --json` prints for the sentence.
        """
        from equivocal.asking.rendering import list_answer

        return list_answer(self, top)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a table with a row for each position, role and candidate for the role.

        Returns
        -------
        pandas.DataFrame
            `position` (from 1), `word`, `role`, `filler`, and one column for each kind of belief.
        """
        import pandas as pd

        word, role, filler = np.nonzero(np.broadcast_to(self.candidates, self.mle.shape))
        labels = {
            "position": word + 1,
            "word": np.array(self.words)[word],
            "role": np.array(self.roles)[role],
            "filler": np.array(self.fillers)[filler],
        }
        beliefs = {name: getattr(self, name)[word, role, filler] for name in BELIEFS}
        return pd.DataFrame({**labels, **beliefs})
