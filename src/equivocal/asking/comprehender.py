"""`ask`, and the `Comprehender` behind it: a trained network with its ensembles, ready to answer.

What an answer holds is decided in `Comprehender.answer`; `answer` and `picture` show it.
"""

import unicodedata
from functools import cache, lru_cache, partial
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.answer import Answer
from equivocal.asking.network import (
    Beliefs,
    Floats,
    NumpyNetwork,
    compute_beliefs,
    compute_logits,
    compute_semantic_update,
)
from equivocal.asking.posteriors import load_ensemble, load_weights
from equivocal.asking.source import CONVERGED, Source
from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.errors import UserError, join_names
from equivocal.world import Utterance, World, name_role_unit
from equivocal.world.prefixes import NO_NODE

__all__ = ["MOST_WORDS", "Comprehender", "ask", "parse_sentence"]

MOST_WORDS = 30  # far longer than any sentence of a world; keeps an answer to milliseconds
PICTURES = {"So", "Sc", "Sk"}  # Unicode's categories of emoji, currencies and the like
CACHED_TRUTHS = 4096
CACHED_ENSEMBLES = 64  # a few megabytes each: every step and variance of a server


def ask(
    sentence: str,
    *,
    world: World | str | Path | None = None,
    run: str | Path | None = None,
    network: int = 0,
    prior_variance: float | None = None,
    step: int | str = CONVERGED,
) -> Answer:
    """Return what a network and its ensemble believe after each word of a sentence.

    Parameters
    ----------
    sentence : str
        Any words of the world, in any order.
    world : World, str or Path, optional
        The world whose default network is asked, its name or its file; "paper" unless given. The
        network is trained the first time and kept in the cache folder.
    run : str or Path, optional
        A run of `equivocal train` or `equivocal reproduce` to take the network from instead.
    network : int
        Which of the run's networks.
    prior_variance : float, optional
        Variance of the prior around the trained last layer: 0.01, 1 (the default) or 5.
    step : int or "converged"
        The ensemble after a step of the paper's sampler, or that of the converged posterior.

    Returns
    -------
    Answer
        Beliefs, uncertainty and semantic update after each word.

    Raises
    ------
    UserError
        Where the sentence has unknown words, or the run, the variance or the step does not exist.

    Examples
    --------
    >>> import equivocal
    >>> answer = equivocal.ask("during dinner, the pizza eats the woman")  # doctest: +SKIP
    >>> answer.belief(-1, "agent", "woman").bayes > 0.9  # doctest: +SKIP
    True
    """
    source = Source.choose(world=world, run=run, network=network)
    parse_sentence(source.world, sentence)  # before anything is trained for it
    return _open_comprehender(source).answer(sentence, prior_variance=prior_variance, step=step)


def parse_sentence(world: World, text: str) -> Utterance:
    """Parse a sentence into words of a world, or refuse it in one clear sentence."""
    if not isinstance(text, str):
        raise UserError(f"a sentence is text, got {type(text).__name__}.")
    for place, sign in enumerate(text.strip(), start=1):
        kind = unicodedata.category(sign)
        if kind.startswith("C"):
            raise UserError(
                f"the sentence has a control character, U+{ord(sign):04X}, in place {place}; "
                "leave it out."
            )
        if kind in PICTURES:
            raise UserError(f"{sign!r} in place {place} is no word of the world; leave it out.")
    utterance = world.parse(text.strip())
    if len(utterance) > MOST_WORDS:
        raise UserError(
            f"the sentence has {len(utterance)} words, at most {MOST_WORDS}; shorten it."
        )
    return utterance


class Comprehender:
    """A network that answers sentences; several threads may use it at once.

    Parameters
    ----------
    source : Source
        The network and its settings; a default network is trained here where there is none.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.world, self.settings = source, source.world, source.settings
        self.vocabulary = Vocabulary.from_world(self.world)
        self._network = NumpyNetwork(load_weights(source))
        self._trained = self._network.get_last_layer(self.vocabulary.units)
        patterns = [self.world.lexicon.mark_units((name_role_unit(r),)) for r in self.world.roles]
        self._probes = np.stack(patterns).astype(np.float32)
        self._lock = Lock()  # two threads must not make the same ensemble
        self._load_once = cache(partial(load_ensemble, source))
        self._find_truth_once = lru_cache(CACHED_TRUTHS)(self._find_truth)
        self._load_members_once = lru_cache(CACHED_ENSEMBLES)(self._load_members)

    def prepare(self) -> None:
        """Make every ensemble now rather than when it is first asked for."""
        for variance in self.settings.prior_variances:
            for step in (CONVERGED, *self.settings.kept_steps):
                self._load_members_once(variance, step)

    def get_times(self, prior_variance: float) -> list[float]:
        """Return the sampler time τ at each of the kept steps."""
        return [float(time) for time in self._load_once("path", prior_variance)["time"]]

    def answer(
        self, text: str, *, prior_variance: float | None = None, step: int | str = CONVERGED
    ) -> Answer:
        """Return what is believed after each word of a sentence; see `ask`."""
        if prior_variance is None:
            prior_variance = self.settings.prior_variance
        utterance = parse_sentence(self.world, text)
        members, time = self._load_members_once(prior_variance, step)
        gestalts = self._network.compute_gestalts(self.world.encode(utterance))
        psi = self._network.compute_features(gestalts, self._probes)
        found = self._compute_beliefs(psi, members)
        words = self.vocabulary
        return Answer(
            sentence=text.strip(),
            world=self.world.name,
            network=self.source.name,
            prior_variance=prior_variance,
            step=step,
            time=time,
            heard=utterance,
            roles=self.world.roles,
            participants=words.participants,
            exact=self.world.is_exact,
            fillers=words.fillers,
            candidates=words.candidates,
            mle=np.where(words.candidates, expit(psi @ self._trained.T), np.nan),
            bayes=found.bayes,
            low=found.low,
            high=found.high,
            truth=self._find_truths(utterance),
            entropy=np.nansum(found.entropy, axis=-1),
            epistemic=np.nansum(found.epistemic, axis=-1),
            semantic_update=compute_semantic_update(gestalts),
            indicated=find_indicated_roles(self.world, utterance),
        )

    def _compute_beliefs(self, psi: Floats, members: list[Floats]) -> Beliefs:
        """Return the ensemble's beliefs (word, role, filler), NaN for what is no candidate."""
        candidates = self.vocabulary.candidates
        # all candidates of all roles beside each other: a few large operations instead of many
        logits = [compute_logits(psi[:, r], members[r]) for r in range(len(candidates))]
        found = []
        for part in compute_beliefs(np.concatenate(logits, axis=1)):
            whole = np.full((len(psi), *candidates.shape), np.nan, np.float32)
            whole[:, candidates] = part
            found.append(whole)
        return Beliefs(*found)

    def _load_members(
        self, prior_variance: float, step: int | str
    ) -> tuple[list[Floats], float | None]:
        """Return the particles of each role's candidates, (candidates, J, D), and the time τ."""
        variances, steps = self.settings.prior_variances, self.settings.kept_steps
        if prior_variance not in variances:
            known = join_names(f"{variance:g}" for variance in variances)
            raise UserError(
                f"there is no posterior for prior variance {prior_variance!r}; choose from {known}."
            )
        if step != CONVERGED and (isinstance(step, bool) or step not in steps):
            known = join_names(map(str, steps))
            raise UserError(
                f"step {step!r} is not available; choose from {known} or {CONVERGED!r}."
            )
        with self._lock:
            found = self._load_once("converged" if step == CONVERGED else "path", prior_variance)
        particles, time = found["particles"], None
        if step != CONVERGED:
            at = steps.index(int(step))
            particles, time = particles[at], float(found["time"][at])
        return [particles[considered] for considered in self.vocabulary.candidates], time

    def _find_truths(self, utterance: Utterance) -> NDArray[np.float64]:
        """Return exact beliefs (word, role, filler), NaN where words are impossible or unknown."""
        shape = (len(utterance), len(self.world.roles), len(self.vocabulary.fillers))
        truth = np.full(shape, np.nan)
        if not self.world.is_exact:
            return truth
        pairs = [tuple(pair) for pair in self.world.encode(utterance).tolist()]
        for last in range(len(pairs)):
            node = self.world.all_derivations.tree.find(pairs[: last + 1])
            if node == NO_NODE:
                break
            truth[last] = self._find_truth_once(node)
        return truth

    def _find_truth(self, node: int) -> NDArray[np.float64]:
        """Return exact beliefs (role, filler) after one beginning, NaN for a role without event."""
        queries = self.world.all_derivations.queries
        truth = np.full((len(self.world.roles), len(self.vocabulary.fillers)), np.nan)
        rows = slice(*np.searchsorted(queries.node, [node, node + 1]))
        asked = queries.find_role_probes()[rows]
        beliefs = queries.targets(rows)[asked]
        truth[queries.probe[rows][asked]] = beliefs[:, self.vocabulary.units]
        return truth


_open_comprehender = lru_cache(maxsize=4)(Comprehender)  # tens of megabytes each
