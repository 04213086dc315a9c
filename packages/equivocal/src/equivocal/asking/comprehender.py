"""`ask`, and the `Comprehender` behind it: trained networks with their ensembles, ready to answer.

`Comprehender.answer` computes the numbers of an answer; `answer` and `rendering` present them.
"""

import unicodedata
from collections import OrderedDict
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.answer import Answer
from equivocal.asking.ensembles import Ensembles, Heard, NumpyNetwork, listen, spread
from equivocal.asking.posteriors import open_own
from equivocal.asking.shipped import find_time, open_shipped
from equivocal.asking.source import CONVERGED, PAPER_STEP, Source
from equivocal.asking.summary import find_parts, name_parts
from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.world import Utterance, World
from equivocal.world.queries import NO_NODE
from lastlayer.errors import UserError, join_names

__all__ = ["MOST_WORDS", "Comprehender", "Latest", "ask", "parse_sentence"]

MOST_WORDS = 30  # far longer than any sentence of a world; keeps an answer to milliseconds
PICTURES = {"So", "Sc", "Sk"}  # Unicode categories of emoji, currency signs and other symbols
CACHED_TRUTHS = 4096
CACHED_WORDS = 4096  # 10 kB each where three networks answer
CACHED_ENSEMBLES = 64  # some megabytes each; room for every step and variance of a server


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
    return _open_comprehender(source).answer(sentence, prior_variance=prior_variance, step=step)


def parse_sentence(world: World, text: str) -> Utterance:
    """Parse a sentence into words of a world, or refuse it in one clear sentence."""
    if not isinstance(text, str):
        raise UserError(f"a sentence is text, got {type(text).__name__}.")
    for place, sign in enumerate(text.strip(), start=1):
        kind = unicodedata.category(sign)
        if kind.startswith("C"):
            raise UserError(
                f"the sentence has a control character, U+{ord(sign):04X}, at position {place}; "
                "leave it out."
            )
        if kind in PICTURES:
            raise UserError(
                f"{sign!r} at position {place} is not a word of this world; leave it out."
            )
    utterance = world.parse(text.strip())
    if len(utterance) > MOST_WORDS:
        raise UserError(
            f"the sentence has {len(utterance)} words, at most {MOST_WORDS}; shorten it."
        )
    return utterance


class Latest(OrderedDict[Any, Any]):
    """A cache of at most `most` values, which drops the least recently used one first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def find(self, key: object) -> Any:
        """Return the value of a key, or None, and mark it as used."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def keep(self, key: object, value: object) -> None:
        """Add a value, and drop the least recently used one if there are too many."""
        self[key] = value
        if len(self) > self.most:
            self.popitem(last=False)


class Comprehender:
    """Networks that answer sentences; several threads may use it at once.

    Parameters
    ----------
    source : Source
        The networks and their settings; those of a world are trained here where none are shipped.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.world, self.settings = source, source.world, source.settings
        self.vocabulary = words = Vocabulary.from_world(self.world)
        shipped, self._name, self.steps = source.shipped, source.name, source.steps
        self._names = source.member_names
        self._listeners = (
            [open_own(member) for member in source.members]
            if shipped is None
            else open_shipped(shipped)
        )
        self._wanted = [words.places[considered] for considered in words.candidates]
        self._lock = Lock()  # two threads must not compute the same ensemble
        self._heard = Latest(CACHED_WORDS)
        self._find_truth_once = lru_cache(CACHED_TRUTHS)(self._find_truth)
        self._load_once = lru_cache(CACHED_ENSEMBLES)(self._load_ensembles)

    @cached_property
    def network(self) -> NumpyNetwork:
        """All networks, stacked into one."""
        return NumpyNetwork.stack([listener.network for listener in self._listeners])

    def prepare(self) -> None:
        """Compute every ensemble now rather than when it is first asked for."""
        for variance in self.settings.prior_variances:
            for step in (CONVERGED, *self.steps):
                self._load_once(variance, step)

    def get_times(self, prior_variance: float) -> list[float]:
        """Return the sampler time τ at each of the kept steps, averaged over networks.

        Parameters
        ----------
        prior_variance : float
            One of the prior variances that the ensembles were sampled with.

        Returns
        -------
        list of float
            One time for each entry of `steps`; 0 where it is unknown.
        """
        return [self._find_time(prior_variance, step) or 0.0 for step in self.steps]

    def find_paper_time(self, prior_variance: float) -> float | None:
        """Return the sampler time τ where the paper stops, if nothing must be sampled to know it.

        Parameters
        ----------
        prior_variance : float
            One of the prior variances that the ensembles were sampled with.

        Returns
        -------
        float or None
            Averaged over networks; None where their paths have not been computed yet.
        """
        if self.source.shipped is not None:
            return find_time(self.source.shipped, prior_variance, PAPER_STEP)
        name = f"path_{prior_variance:g}_{{}}.safetensors"
        paths = [one.folder / name.format(one.network) for one in self.source.members]
        return self._find_time(prior_variance, PAPER_STEP) if all(map(Path.exists, paths)) else None

    def _find_time(self, prior_variance: float, step: int | str) -> float | None:
        times = self._load_once(prior_variance, step).times
        known = [time for time in times if time is not None]
        return sum(known) / len(known) if known else None

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
        words, ensembles = self.vocabulary, self._load_once(prior_variance, step)
        heard = self._hear(utterance, prior_variance, step)
        shown, (entropy, epistemic), update = spread(heard.shown, words), heard.doubt, heard.update
        common: dict[str, Any] = {
            "sentence": text.strip(),
            "world": self.world.name,
            "prior_variance": prior_variance,
            "step": step,
            "heard": utterance,
            "roles": self.world.roles,
            "participants": words.participants,
            "exact": self.world.is_exact,
            "fillers": words.fillers,
            "candidates": words.candidates,
            "truth": self._find_truths(utterance),
            "indicated": find_indicated_roles(self.world, utterance),
            "verbs": words.verbs,
            "joint": {},
        }

        def build(voice: int, **named: Any) -> Answer:
            mle, bayes, low, high = shown[:, voice]
            return Answer(
                **common,
                **named,
                mle=mle,
                bayes=bayes,
                low=low,
                high=high,
                entropy=entropy[voice],
                epistemic=epistemic[voice],
                semantic_update=update[voice, :, 0],
            )

        alone = (
            build(n, network=name, time=time)
            for n, (name, time) in enumerate(zip(self._names, ensembles.times, strict=True), 1)
        )
        time = self._find_time(prior_variance, step)
        answer = build(0, network=self._name, time=time, networks=tuple(alone))
        self._add_joint(answer)
        return answer

    def _hear(self, utterance: Utterance, prior_variance: float, step: int | str) -> Heard:
        """Process a sentence by all networks, reusing prefixes that were processed recently."""
        tokens = self.world.encode(utterance)
        said = [tuple(pair) for pair in tokens.tolist()]
        keys = [(prior_variance, step, *said[: size + 1]) for size in range(len(said))]
        words: list[Heard] = []
        with self._lock:
            for key in keys:
                if (known := self._heard.find(key)) is None:
                    break
                words.append(known)
        if len(words) < len(said):
            new = listen(
                self.network,
                self._load_once(prior_variance, step),
                tokens[len(words) :],
                self.vocabulary,
                words[-1].gestalts if words else None,
            ).split()
            with self._lock:
                for key, word in zip(keys[len(words) :], new, strict=True):
                    self._heard.keep(key, word)
            words += new
        return Heard.join(words)

    def _load_ensembles(self, prior_variance: float, step: int | str) -> Ensembles:
        """Return the ensembles of all networks at a sampler step, or converged."""
        variances, steps = self.settings.prior_variances, self.steps
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
            loaded = [listener.load(float(prior_variance), step) for listener in self._listeners]
        return Ensembles(loaded, self.network.last_layer, self._wanted)

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

    def _add_joint(self, answer: Answer) -> None:
        """Add the exact probabilities of the readings of an answer and of each network's own."""
        possible = [n for n in range(len(answer.words)) if answer.is_possible(n)]
        for position, one in product(possible, (answer, *answer.networks)):
            for parts in find_parts(one, position).values():
                name = name_parts(position, parts)
                if name not in answer.joint:  # which all of them share
                    heard = answer.heard.first(position + 1)
                    answer.joint[name] = self.world.true_joint_belief(heard, dict(name[1:]))

    def _find_truth(self, node: int) -> NDArray[np.float64]:
        """Return exact beliefs (role, filler) after one prefix, NaN for roles never asked."""
        queries = self.world.all_derivations.queries
        truth = np.full((len(self.world.roles), len(self.vocabulary.fillers)), np.nan)
        rows = slice(*np.searchsorted(queries.node, [node, node + 1]))
        asked = queries.find_role_probes()[rows]
        beliefs = queries.targets(rows)[asked]
        truth[queries.probe[rows][asked]] = beliefs[:, self.vocabulary.units]
        return truth


_open_comprehender = lru_cache(maxsize=4)(Comprehender)  # tens of megabytes each
