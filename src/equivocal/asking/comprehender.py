"""`Comprehender`: a trained network with its ensembles, ready to be asked any sentence."""

import unicodedata
from functools import cache, lru_cache, partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.answer import Answer, Heard
from equivocal.asking.beliefs import (
    Beliefs,
    ensemble_beliefs,
    member_logits,
    semantic_update,
)
from equivocal.asking.ensembles import converged, load_weights, path
from equivocal.asking.listener import Floats, Listener
from equivocal.asking.settings import CONVERGED
from equivocal.asking.source import Source
from equivocal.asking.vocabulary import Vocabulary, indicated_roles
from equivocal.errors import UserError, join_names
from equivocal.world import Utterance, World, role_unit
from equivocal.world.prefixes import NO_NODE

__all__ = ["MOST_WORDS", "Comprehender", "understood"]

MOST_WORDS = 30  # far longer than any sentence of a world; keeps an answer to milliseconds
PICTURES = {"So", "Sc", "Sk"}  # Unicode's kinds of emoji, currencies and the like
CACHED_TRUTHS = 4096
CACHED_ENSEMBLES = 64  # of a few megabytes each: every step and variance of a server


class Comprehender:
    """Ask it a sentence; it answers after each word. May be used from several threads."""

    def __init__(self, source: Source) -> None:
        self.source, self.world = source, source.world
        self.vocabulary = Vocabulary.of(self.world)
        self._listener = Listener(load_weights(source))
        self._trained = self._listener.last_layer(self.vocabulary.units)
        patterns = [self.world.lexicon.unit_mask((role_unit(r),)) for r in self.world.roles]
        self._probes = np.stack(patterns).astype(np.float32)
        self._lock = Lock()  # two threads must not make the same ensemble
        self._converged = cache(partial(converged, source))
        self._path = cache(partial(path, source))
        self._truth = lru_cache(CACHED_TRUTHS)(self._truth_at)
        self._members = lru_cache(CACHED_ENSEMBLES)(self._members_of)

    @property
    def prior_variances(self) -> tuple[float, ...]:
        """Those that can be asked for."""
        return self.source.settings.prior_variances

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the paper's sampler that can be asked for."""
        return self.source.settings.kept_steps

    def prepare(self) -> None:
        """Make every ensemble now rather than when it is first asked for."""
        for variance in self.prior_variances:
            for step in (CONVERGED, *self.steps):
                self._members(variance, step)

    def times(self, prior_variance: float) -> list[float]:
        """Sampler time τ at each of `steps`."""
        return [float(time) for time in self._path(prior_variance)[1]]

    def answer(
        self,
        text: str,
        *,
        prior_variance: float | None = None,
        step: int | str = CONVERGED,
    ) -> Answer:
        """What is believed after each word of a sentence; `prior_variance` 1 unless given."""
        if prior_variance is None:
            prior_variance = self.source.settings.prior_variance
        utterance = understood(self.world, text)
        members, time = self._members(prior_variance, step)
        gestalts = self._listener.gestalts(self.world.encode(utterance))
        psi = self._listener.features(gestalts, self._probes)
        found = self._beliefs(psi, members)
        trained = expit(psi @ self._trained.T)
        return Answer(
            sentence=text.strip(),
            world=self.world.name,
            network=self.source.name,
            prior_variance=prior_variance,
            step=step,
            time=time,
            heard=tuple(
                Heard(part.text, part.word, part.word in self.vocabulary.partaking)
                for part in utterance
            ),
            roles=self.world.roles,
            participants=self.vocabulary.participants,
            exact=self.world.is_exact,
            fillers=self.vocabulary.fillers,
            candidates=self.vocabulary.candidates,
            mle=np.where(self.vocabulary.candidates, trained, np.nan),
            bayes=found.bayes,
            low=found.low,
            high=found.high,
            truth=self._truths(utterance),
            entropy=np.nansum(found.entropy, axis=-1),
            epistemic=np.nansum(found.epistemic, axis=-1),
            semantic_update=semantic_update(gestalts),
            indicated=indicated_roles(self.world, utterance),
        )

    def _beliefs(self, psi: Floats, members: list[Floats]) -> Beliefs:
        """(word, role, filler): what the ensemble believes of each role's candidates."""
        candidates = self.vocabulary.candidates
        # all candidates of all roles beside each other: a few large operations instead of many
        logits = [member_logits(psi[:, r], members[r]) for r in range(len(candidates))]
        found = []
        for part in ensemble_beliefs(np.concatenate(logits, axis=1)):
            whole = np.full((len(psi), *candidates.shape), np.nan, np.float32)
            whole[:, candidates] = part
            found.append(whole)
        return Beliefs(*found)

    def _members_of(
        self, prior_variance: float, step: int | str
    ) -> tuple[list[Floats], float | None]:
        """For each role the particles of its candidates, (candidates, J, D), and the time τ."""
        particles, time = self._ensemble(prior_variance, step)
        return [particles[considered] for considered in self.vocabulary.candidates], time

    def _ensemble(self, prior_variance: float, step: int | str) -> tuple[Floats, float | None]:
        if prior_variance not in self.prior_variances:
            known = join_names(f"{variance:g}" for variance in self.prior_variances)
            raise UserError(
                f"there is no posterior for prior variance {prior_variance!r}; choose from {known}."
            )
        if step == CONVERGED:
            with self._lock:
                return self._converged(prior_variance), None
        if isinstance(step, bool) or step not in self.steps:
            raise UserError(
                f"step {step!r} is not kept; choose from {join_names(map(str, self.steps))} "
                f"or {CONVERGED!r}."
            )
        with self._lock:
            particles, time = self._path(prior_variance)
        at = self.steps.index(int(step))
        return particles[at], float(time[at])

    def _truths(self, utterance: Utterance) -> NDArray[np.float64]:
        """(word, role, filler): exact; NaN where the words so far are impossible, or unknown."""
        shape = (len(utterance), len(self.world.roles), len(self.vocabulary.fillers))
        truth = np.full(shape, np.nan)
        if not self.world.is_exact:
            return truth
        pairs = [tuple(pair) for pair in self.world.encode(utterance).tolist()]
        for last in range(len(pairs)):
            node = self.world.all_derivations.tree.find(pairs[: last + 1])
            if node == NO_NODE:
                break
            truth[last] = self._truth(node)
        return truth

    def _truth_at(self, node: int) -> NDArray[np.float64]:
        """(role, filler) after one beginning; NaN for a role that no event has there."""
        queries = self.world.all_derivations.queries
        truth = np.full((len(self.world.roles), len(self.vocabulary.fillers)), np.nan)
        for role in range(len(self.world.roles)):
            pair = queries.find(node, role)
            if pair is not None:
                (beliefs,) = queries.targets(slice(pair, pair + 1))
                truth[role] = beliefs[self.vocabulary.units]
        return truth


def understood(world: World, text: str) -> Utterance:
    """A sentence as the world takes it; whatever cannot be said gets a clear sentence."""
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
