"""`ask`, and the `Listeners` behind it: trained networks with their ensembles, ready to answer."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.answer import Answer
from equivocal.asking.ensembles import (
    Floats,
    LastLayers,
    Logits,
    compute_beliefs,
    compute_semantic_update,
    expit,
)
from equivocal.asking.posteriors import open_own, open_shipped
from equivocal.asking.source import CONVERGED, Source
from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.asking.warranted import Warrant
from equivocal.world import Utterance, World
from equivocal.world.queries import NO_NODE
from lastlayer.errors import UserError, join_names

__all__ = ["MOST_WORDS", "Listeners", "ask", "parse_sentence"]

MOST_WORDS = 30  # far longer than any sentence of a world; keeps an answer to milliseconds
KEPT_ENSEMBLES = 8  # some megabytes each


def ask(
    sentence: str,
    *,
    world: World | str | Path | None = None,
    run: str | Path | None = None,
    network: int | None = None,
    prior_variance: float | None = None,
    step: int | str = CONVERGED,
) -> Answer:
    """Return what networks and their ensembles believe after each word of a sentence.

    Parameters
    ----------
    sentence : str
        Any words of the world, in any order.
    world : World, str or Path, optional
        The world whose networks are asked, its name or its file; "slips" unless given. Three
        networks each of `slips` and `paper` come with the package; for another world, three are
        trained the first time and kept in the cache folder.
    run : str or Path, optional
        A folder that a command has written, such as `equivocal train` or `equivocal reproduce`:
        the networks in it are asked instead, all together. Where they are of several worlds,
        `world` names one.
    network : int, optional
        The one network of the run to ask, from 0.
    prior_variance : float, optional
        Variance of the prior around the trained last layer: 0.01, 1 (the default) or 5.
    step : int or "converged"
        The converged posterior, unless a step of the paper's sampler is given, such as 17, where
        the paper stops.

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
    >>> answer = equivocal.ask("during dinner, the pizza eats the woman")
    >>> round(answer.belief(-1, "agent", "pizza").truth, 3)
    0.477
    """
    source = Source.choose(world=world, run=run, network=network)
    parse_sentence(source.world, sentence)  # before anything is trained for it
    return _open_listeners(source).answer(sentence, prior_variance=prior_variance, step=step)


def parse_sentence(world: World, text: str) -> Utterance:
    """Parse a sentence into words of a world, or refuse it in one clear sentence."""
    odd = [sign for sign in text.strip() if not sign.isprintable()]
    if odd:
        raise UserError(f"the sentence has a control character, {odd[0]!a}; leave it out.")
    utterance = world.parse(text.strip())
    if len(utterance) > MOST_WORDS:
        raise UserError(
            f"the sentence has {len(utterance)} words, at most {MOST_WORDS}; shorten it."
        )
    return utterance


class Listeners:
    """Networks that answer sentences together.

    Parameters
    ----------
    source : Source
        The networks and their settings; those of a world are trained here where none are shipped.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.world, self.settings = source, source.world, source.settings
        self.vocabulary = Vocabulary.from_world(self.world)
        self.warrant = Warrant(source, self.vocabulary)
        self.steps = source.steps
        self.members = (
            [open_own(member) for member in source.members]
            if source.shipped is None
            else open_shipped(source.shipped)
        )
        # one pair for each candidate of each role: the roles, then the units of the candidates
        roles, fillers = np.nonzero(self.vocabulary.candidates)
        self._pairs = roles, self.vocabulary.places[fillers]
        self._load_once = lru_cache(KEPT_ENSEMBLES)(self.load_layers)

    def answer(
        self, text: str, *, prior_variance: float | None = None, step: int | str = CONVERGED
    ) -> Answer:
        """Return what the networks believe after each word of a sentence; see `ask`.

        Parameters
        ----------
        text : str
            A sentence or a prefix of one, in the words of the world.
        prior_variance : float, optional
            Prior variance of the last-layer weights; that of the settings unless given.
        step : int or str
            "converged", or the step of the paper's sampler at which the ensemble is read.

        Returns
        -------
        Answer
            The answer of all networks together; `networks` holds that of each.

        Raises
        ------
        UserError
            Where the sentence cannot be parsed, or no ensemble has this prior variance and step.
        """
        if prior_variance is None:
            prior_variance = self.settings.prior_variance
        utterance = parse_sentence(self.world, text)
        layers = self._load_once(prior_variance, step)
        logits, updates = self._listen(utterance, layers)
        common: dict[str, Any] = {
            "sentence": text.strip(),
            "world": self.world.name,
            "prior_variance": prior_variance,
            "step": step,
            "heard": utterance,
            "roles": self.world.roles,
            "participants": self.vocabulary.participants,
            "exact": self.world.is_exact,
            "fillers": self.vocabulary.fillers,
            "candidates": self.vocabulary.candidates,
            "truth": self._find_truths(utterance),
            "indicated": find_indicated_roles(self.world, utterance),
            "verbs": self.vocabulary.verbs,
            "article": self.vocabulary.article,
            "find_joint": self.world.true_joint_belief,
            "warrant": self.warrant,
        }

        def build(network: str, time: float | None, chosen: slice, **more: Any) -> Answer:
            beliefs = self._believe(Logits(*(values[chosen] for values in logits)))
            update = updates[chosen].mean(axis=0)
            return Answer(
                **common, **beliefs, **more, network=network, time=time, semantic_update=update
            )

        times = [each.time for each in layers]
        named = enumerate(zip(self.source.member_names, times, strict=True))
        alone = tuple(build(name, time, slice(n, n + 1)) for n, (name, time) in named)
        known = [time for time in times if time is not None]
        time = sum(known) / len(known) if known else None
        return build(self.source.name, time, slice(None), networks=alone)

    def load_layers(self, prior_variance: float, step: int | str) -> list[LastLayers]:
        """Load each network's ensemble at a step of the paper's sampler, or converged."""
        variances = self.settings.prior_variances
        if prior_variance not in variances:
            known = join_names(f"{variance:g}" for variance in variances)
            raise UserError(
                f"there is no posterior for prior variance {prior_variance!r}; choose from {known}."
            )
        if step != CONVERGED and (isinstance(step, bool) or step not in self.steps):
            known = join_names(map(str, self.steps))
            raise UserError(
                f"step {step!r} is not available; choose from {known} or {CONVERGED!r}."
            )
        return [member.load(float(prior_variance), step) for member in self.members]

    def _listen(self, utterance: Utterance, layers: list[LastLayers]) -> tuple[Logits, Floats]:
        """Return the logits (networks, words, pairs) and the updates (networks, words)."""
        tokens = self.world.encode(utterance)
        roles, units = self._pairs
        each, updates = [], []
        for member, ensemble in zip(self.members, layers, strict=True):
            gestalts = member.network.compute_gestalts(tokens)
            psi = member.network.compute_features(gestalts)
            logits = ensemble.compute_logits(psi, member.network.last_layer)
            each.append(Logits(*(values[:, roles, units] for values in logits)))
            updates.append(compute_semantic_update(gestalts))
        return Logits(*(np.stack(values) for values in zip(*each, strict=True))), np.stack(updates)

    def _believe(self, logits: Logits) -> dict[str, Any]:
        """Return beliefs (word, role, filler), entropies summed over the candidates of a role."""
        beliefs = compute_beliefs(logits.mean, logits.sd)
        mle = expit(logits.trained).mean(axis=0)
        arranged = {
            name: self._arrange(values)
            for name, values in {"mle": mle, **beliefs._asdict()}.items()
        }
        summed = {name: np.nansum(arranged[name], axis=-1) for name in ("entropy", "epistemic")}
        return arranged | summed

    def _arrange(self, values: Floats) -> Floats:
        """Arrange values (word, pair) as (word, role, filler), NaN where it is no candidate."""
        candidates = self.vocabulary.candidates
        whole = np.full((len(values), *candidates.shape), np.nan)
        whole[:, candidates] = values
        return whole

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
            truth[last] = self._find_truth(node)
        return truth

    def _find_truth(self, node: int) -> NDArray[np.float64]:
        """Return exact beliefs (role, filler) after one prefix, NaN for roles never asked."""
        queries = self.world.all_derivations.queries
        truth = np.full((len(self.world.roles), len(self.vocabulary.fillers)), np.nan)
        rows = slice(*np.searchsorted(queries.node, [node, node + 1]))
        asked = queries.find_role_probes()[rows]
        beliefs = queries.targets(rows)[asked]
        truth[queries.probe[rows][asked]] = beliefs[:, self.vocabulary.units]
        return truth


_open_listeners = lru_cache(maxsize=4)(Listeners)  # tens of megabytes each
