"""`World`: load a world, enumerate it, sample it, parse sentences, compute exact beliefs.

The limits of enumeration and sampling may be changed here; the format of a file, in `schema`.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equivocal.world.checks import find_unused_parts
from equivocal.world.corpus import Corpus, compute_beliefs, compute_joint_belief
from equivocal.world.derivations import (
    Derivations,
    bound_derivations,
    collapse,
    draw_derivations,
    enumerate_derivations,
    sum_by_group,
)
from equivocal.world.errors import UnknownWordError, WorldError, WorldSizeWarning
from equivocal.world.grammar import (
    NO_FILLER,
    Grammar,
    Lexicon,
    build_grammar,
    build_lexicon,
    name_role_unit,
)
from equivocal.world.loading import (
    find_world,
    format_world,
    parse_whole_world,
    parse_world_file,
)
from equivocal.world.noise import add_noise
from equivocal.world.schema import PLUS, WorldFile
from equivocal.world.spelling import Parser, Spellings, Utterance, spell_sentences
from lastlayer.errors import UserError, check_known, did_you_mean, join_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Event", "Sentence"]


MAX_ENUMERATED = 250_000  # derivations; exact beliefs about them take seconds and half a gigabyte
MAX_SAMPLE = 10_000_000  # sentences drawn at once; a row takes about 200 bytes while it is drawn
TRIED = 500  # sentences of a large world that are drawn to check it
FALLBACK_SAMPLE = 100_000  # sentences that stand in for a world too large to enumerate


@dataclass(frozen=True)
class Event:
    """Who does what to whom, where and when: roles with their fillers."""

    roles: dict[str, str]
    probability: float


@dataclass(frozen=True)
class Sentence:
    """A sentence of the world and how probable it is."""

    text: str
    probability: float


class World:
    """All events and sentences of one world file, with their probabilities.

    Probabilities are exact if `is_exact`; in a world too large to enumerate, they are estimated
    from a sample.
    """

    def __init__(self, file: WorldFile, source: str, text: str) -> None:
        self.file = file
        self.source = source  # its name in error messages
        self.text = text  # the file with the values of its parameters, to be saved with results
        self.lexicon: Lexicon = build_lexicon(file)
        self.grammar: Grammar = add_noise(build_grammar(file, self.lexicon, source), file)
        events = enumerate_derivations(self.grammar) if self.is_exact else None
        problems = find_unused_parts(file, self.grammar, events)
        if problems:
            raise WorldError(source, problems)
        self._enumerated = events
        if not self.is_exact:
            draw_derivations(self.grammar, TRIED, np.random.default_rng(0))  # may reveal a mistake

    @classmethod
    def load(cls, name_or_path: str | Path, /, **parameters: float | str) -> "World":
        """Load a world of the package or one of your own.

        Parameters
        ----------
        name_or_path : str or Path
            A name, such as "paper" or "sg2018", or the path of a world file. Values of parameters
            may follow it: "slips:rare=0.02,slip=0.01".
        **parameters : float or str
            Values for the parameters that the world declares, as numbers or as text such as
            "1/50"; the others keep their defaults.

        Returns
        -------
        World
            The world, checked and, if it is small enough, enumerated.

        Raises
        ------
        UserError
            Where there is no such world or parameter, a value is out of range, or (`WorldError`)
            with everything wrong with its file.
        """
        return cls.from_toml(*find_world(name_or_path, parameters))

    @classmethod
    def from_toml(
        cls, text: str, source: str = "<text>", parameters: Mapping[str, Any] | None = None
    ) -> "World":
        """Build a world from the text of a world file.

        Parameters
        ----------
        text : str
            The content of the file.
        source : str
            Its name in error messages.
        parameters : mapping of str to float or str, optional
            Values for the parameters that the world declares.

        Returns
        -------
        World
            The world, checked and, if it is small enough, enumerated.

        Raises
        ------
        WorldError
            Where the text is wrong, with every mistake that was found.
        """
        file, whole = parse_world_file(text, source, parameters or {})
        return cls(file, source, whole)

    def __repr__(self) -> str:
        return (
            f"World({self.name!r}: {len(self.tokens)} tokens, {len(self.units)} units, "
            f"{len(self.grammar.actions)} actions)"
        )

    @property
    def name(self) -> str:
        """The name given in the file."""
        return self.file.name

    @property
    def tokens(self) -> tuple[str, ...]:
        """Input tokens: words, then markers."""
        return self.lexicon.tokens

    @property
    def units(self) -> tuple[str, ...]:
        """Output units: `role:agent`, …, then the features by their plain names."""
        return self.lexicon.units

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of an event; each can be used as a probe."""
        return self.lexicon.roles

    @property
    def parameters(self) -> dict[str, float]:
        """The current values of the parameters that the file declares."""
        return {name: spec.default for name, spec in self.file.parameters.items()}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that matters to a network, in the order of the file.

        Names, prose and spellings do not matter: a network trained before a synonym was added can
        still be used. Values of parameters do, by the probabilities that follow from them.
        """
        prose = {"extends", "parameters", "name", "description", "verbs", "forms", "markers"}
        content = self.file.model_dump(exclude=prose, warnings=False)
        for construction in content["constructions"]:
            del construction["form"]
        content["markers"] = list(self.file.markers)
        if not self.file.noise:  # keeps the fingerprints of worlds from before there was noise
            del content["noise"]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    # ---- events and sentences

    def remove_noise(self) -> "World":
        """Return the same world in which every noise has the probability 0.

        Returns
        -------
        World
            With the same words and units, so networks of the two can be compared unit by unit.

        Examples
        --------
        >>> World.load("both_ways").remove_noise().has_noise
        False
        """
        if not self.has_noise:
            return self
        raw = parse_whole_world(self.text, self.source)
        # a product, because a parameter that nothing uses would be an error
        noise = {
            name: {**table, "probability": f"0 * ({table['probability']})"}
            for name, table in raw["noise"].items()
        }
        return World.from_toml(format_world({**raw, "noise": noise}), self.source)

    @property
    def has_noise(self) -> bool:
        """Whether what is heard may differ from what was meant."""
        return bool(self.grammar.disturbances)

    @cached_property
    def is_exact(self) -> bool:
        """Whether the world is enumerated; if not, probabilities are estimates from a sample."""
        return self._is_small(self.grammar)

    @cached_property
    def all_derivations(self) -> Corpus:
        """Every event in every wording, weighted by probability (or a sample of a large world)."""
        if self._enumerated is None:
            return self._estimate(self.grammar)
        return Corpus(self, self._enumerated)

    @cached_property
    def literal_derivations(self) -> Corpus:
        """Every event in every wording as it is meant: `all_derivations` without the noise."""
        if not self.has_noise:
            return self.all_derivations
        grammar = self._literal_grammar
        if not self._is_small(grammar):
            return self._estimate(grammar)
        return Corpus(self, enumerate_derivations(grammar))

    @property
    def _literal_grammar(self) -> Grammar:
        return replace(self.grammar, disturbances=())

    def _is_small(self, grammar: Grammar) -> bool:
        return bool(bound_derivations(grammar) <= MAX_ENUMERATED)

    def _estimate(self, grammar: Grammar) -> Corpus:
        """Estimate probabilities from sampled sentences, with a warning."""
        warnings.warn(
            f"world {self.name!r} has up to {bound_derivations(grammar):.2g} derivations, too "
            f"many to enumerate (at most {MAX_ENUMERATED:,}); its probabilities are estimated "
            f"from {FALLBACK_SAMPLE:,} sampled sentences.",
            WorldSizeWarning,
            stacklevel=4,  # past the cached property and the method that reads it
        )
        drawn = collapse(draw_derivations(grammar, FALLBACK_SAMPLE, np.random.default_rng(0)))
        return Corpus(self, drawn.reweight(drawn.weight / FALLBACK_SAMPLE))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Every event with its probability, whatever its wording."""
        derivations = self.all_derivations.derivations
        rows, group = np.unique(derivations.fillers, axis=0, return_inverse=True)
        weight = sum_by_group(group, derivations.weight)
        return tuple(map(Event, map(self.lexicon.name_event, rows), weight.tolist()))

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Every distinct sentence with its probability, most probable first."""
        everything = self.all_derivations
        ends = everything.tree.ends
        _, first, group = np.unique(ends, return_index=True, return_inverse=True)
        weight = sum_by_group(group, everything.derivations.weight)
        order = np.argsort(-weight, kind="stable")
        texts = everything.take(first[order]).texts
        return tuple(map(Sentence, texts, weight[order].tolist()))

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Corpus:
        """Draw sentences at random.

        Parameters
        ----------
        n : int
            How many.
        seed : int or numpy.random.Generator
            The same seed gives the same corpus, and a longer sample begins with a shorter one. A
            generator continues from its current state.

        Returns
        -------
        Corpus
            The sentences with the events they describe.

        Raises
        ------
        UserError
            Where `n` or `seed` is not a valid number.
        """
        if not isinstance(n, (int, np.integer)) or not 1 <= n <= MAX_SAMPLE:
            raise UserError(
                f"n must be a whole number of sentences from 1 to {MAX_SAMPLE:,}, got {n!r}."
            )
        whole = isinstance(seed, (int, np.integer)) and seed >= 0
        if not whole and not isinstance(seed, np.random.Generator):
            raise UserError(
                f"seed must be a whole number, 0 or more, or a generator, got {seed!r}."
            )
        rng = np.random.default_rng(seed)
        return Corpus(self, draw_derivations(self.grammar, int(n), rng))

    def spell(self, derivations: Derivations) -> tuple[str, ...]:
        """Write derivations as sentences that `parse` can read.

        Parameters
        ----------
        derivations : Derivations
            Events with the constructions that express them.

        Returns
        -------
        tuple of str
            One sentence for each derivation.
        """
        return spell_sentences(derivations, self.file, self.grammar)

    # ---- parsing and beliefs

    @cached_property
    def _parser(self) -> Parser:
        usual = self.grammar.map_markers_to_words(self.grammar.plain_constructions)
        return Parser(self.file, usual, self.source)

    def list_spellings(self) -> Spellings:
        """List every spelling that `parse` can read.

        Returns
        -------
        Spellings
            Spellings of words and markers.
        """
        return self._parser.spellings

    def parse(self, text: str | Utterance) -> Utterance:
        """Parse a sentence or a prefix of one, in any order of words.

        Parameters
        ----------
        text : str or Utterance
            Articles, capitals, inflection and punctuation do not matter.

        Returns
        -------
        Utterance
            The constituents: words with their markers.

        Raises
        ------
        UnknownWordError
            For a word that the world does not know; the nearest known words are named.
        """
        return text if isinstance(text, Utterance) else self._parser.parse(text)

    def encode(self, text: str | Utterance) -> NDArray[np.int32]:
        """Return the input tokens of a sentence.

        Parameters
        ----------
        text : str or Utterance
            A sentence, or a prefix of one.

        Returns
        -------
        array (constituents, 2)
            Token numbers of word and marker; -1 where there is no marker.

        Raises
        ------
        UnknownWordError
            For a word that the world does not have.
        """
        number = self.lexicon.token_numbers
        return np.array(
            [
                [number[part.word], number[part.marker] if part.marker else NO_FILLER]
                for part in self.parse(text)
            ],
            dtype=np.int32,
        )

    def find_filler_units(self, filler: str) -> NDArray[np.bool_]:
        """Return the units that a word switches on when it is used as a probe.

        Parameters
        ----------
        filler : str
            A word of the world. Features that a construction adds may follow, as in
            "woman + passive voice".

        Returns
        -------
        array (units,)
            A mask of the units.

        Raises
        ------
        UserError
            Where this is not a single word of the world, or a feature is unknown.
        """
        split = filler.split(PLUS.strip()) if isinstance(filler, str) else [""]
        word, *added = (part.strip() for part in split)
        parts = self.parse(word).constituents if word else ()
        if len(parts) != 1 or parts[0].marker is not None:
            raise UserError(f"a filler is one word of the world, got {filler!r}.")
        for feature in added:
            check_known(feature, self.units[len(self.roles) :], "feature", f"filler {filler!r}: ")
        meaning: NDArray[np.bool_] = self.lexicon.features[self.lexicon.words.index(parts[0].word)]
        return meaning | self.lexicon.mark_units(tuple(added))

    def find_probe_units(self, probe: str) -> NDArray[np.bool_]:
        """Return the units that a probe switches on.

        Parameters
        ----------
        probe : str
            A role, or a filler as in `find_filler_units`; a name that is both is the role.

        Returns
        -------
        array (units,)
            A mask of the units.

        Raises
        ------
        UserError
            Where the name is neither a role nor a word, with the nearest names.
        """
        if probe in self.roles:
            return self.lexicon.mark_units((name_role_unit(probe),))
        try:
            return self.find_filler_units(probe)
        except UserError as error:
            hint = did_you_mean(str(probe), (*self.roles, *self.lexicon.words))
            known = f"; roles are {join_names(self.roles)}, and any word of the world is a probe."
            reason = f": {error}" if not isinstance(error, UnknownWordError) else hint or known
            raise UserError(f"unknown role or word {probe!r:.80}{reason}") from None

    def true_beliefs(
        self, text: str | Utterance, role: str | None = None, *, filler: str | None = None
    ) -> "pd.Series[float]":
        """Compute the exact P(unit = 1 | words so far, probe) for every output unit.

        The probe is asked only about events that have the role, or the filler, as it is when a
        network is trained; the belief is conditioned on that too. See `is_exact` for large worlds.
        In a world with noise, it is the belief about what was meant, given what was heard.

        Parameters
        ----------
        text : str or Utterance
            The words so far.
        role : str, optional
            The probe: "who is the agent?"
        filler : str, optional
            A word as the probe instead: "what is the pizza here?" (see `find_filler_units`).

        Returns
        -------
        Series
            A probability for each output unit.

        Raises
        ------
        ImpossibleSentenceError
            If no event matches these words, or none of those that match has this probe, so that
            there is no true belief.
        """
        return compute_beliefs(self.all_derivations, text, role, filler, exact=self.is_exact)

    def true_joint_belief(self, text: str | Utterance, fillers: Mapping[str, str]) -> float:
        """Compute the exact probability that all these fillers have their roles, given the words.

        Parameters
        ----------
        text : str or Utterance
            The words so far.
        fillers : mapping of str to str
            A filler by role; any roles may be left out.

        Returns
        -------
        float
            The probability of the events with these fillers, and perhaps others beside them.

        Raises
        ------
        ImpossibleSentenceError
            If no event matches these words.
        """
        return compute_joint_belief(self.all_derivations, text, fillers, exact=self.is_exact)

    def literal_beliefs(
        self, text: str | Utterance, role: str | None = None, *, filler: str | None = None
    ) -> "pd.Series[float]":
        """Compute the beliefs of a listener who takes every sentence literally.

        These are the beliefs in the same world without its noise; in a world without noise, they
        equal `true_beliefs`.

        Parameters
        ----------
        text, role, filler
            As for `true_beliefs`.

        Returns
        -------
        Series
            A probability for each output unit.

        Raises
        ------
        ImpossibleSentenceError
            If these words are impossible without noise, so that a literal listener has no belief.
        """
        exact = self._is_small(self._literal_grammar)
        return compute_beliefs(self.literal_derivations, text, role, filler, exact=exact)
