"""`EnglishListener`: ask any English sentence who does what to whom, after every word.

A listener is a language model (by name), a query network and draws of the posterior of its last
layer, in one safetensors file. One for the default model comes with the package. `fit_english`
makes a listener for labels of your own: any yes/no questions about words or sentences.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equivocal.english.comprehenders import FLOOR, Question, combine_members, predict_draws
from equivocal.english.language_model import PUNCTUATION, LanguageModel
from equivocal.english.query_network import (
    Coverage,
    Inputs,
    QueryNetwork,
    Rows,
    collect_rows,
    pick_inputs,
)
from equivocal.english.sentences import DATA, OUTPUTS, Lexicon, Surface, draw_sentences, load_world
from equivocal.progress import progress
from lastlayer.errors import UserError
from lastlayer.files import read_tensors

__all__ = ["EnglishListener", "fit_english", "fit_roles"]

SHIPPED = DATA / "listener.safetensors"
HELD_OUT = 5  # every fifth sentence of labels of your own chooses the prior
FAR = 0.99  # quantile of the distance of training questions above which a sentence is not covered
MOST_WORDS = 100  # of a sentence; beliefs are about pairs of words
FUNCTION_WORDS = frozenset((DATA / "function_words.txt").read_text().split())  # never asked about


@dataclass(frozen=True, eq=False)
class EnglishListener:
    """A query network with draws of the posterior of its last layer, and its language model."""

    network: QueryNetwork
    coverage: Coverage
    particles: np.ndarray  # (K, J, hidden + 1)
    outputs: tuple[str, ...]
    layer: int
    far: float  # distance beyond which a question is not covered
    model: LanguageModel

    @classmethod
    def load(
        cls, lm: str | Path | None = None, *, path: str | Path | None = None
    ) -> "EnglishListener":
        """Load a fitted listener.

        Parameters
        ----------
        lm : str or Path, optional
            The language model it was fitted to: a name, a package or a path; the default model
            unless given.
        path : str or Path, optional
            A file that `save` wrote; by default the one that comes with the package.

        Raises
        ------
        UserError
            Where there is no language model, or the listener was fitted to another one.
        """
        model = LanguageModel(lm)
        about, arrays = read_tensors(str(path or SHIPPED), kinds=frozenset({"F16", "F32"}))
        told = json.loads(about["listener"])
        if told["model"] != model.fingerprint:
            raise UserError(
                f"this listener was fitted to {told['name']}, not to {model.name}; fit one by "
                "`equivocal english fit --lm PATH --out DIR`, and ask it by --listener."
            )
        arrays = {name: values.astype(np.float32) for name, values in arrays.items()}
        parts = [{f.name: arrays[f.name] for f in fields(c)} for c in (QueryNetwork, Coverage)]
        network, coverage = QueryNetwork(**parts[0]), Coverage(**parts[1])
        asked = tuple(told["outputs"]), told["layer"], told["far"]
        return cls(network, coverage, arrays["particles"], *asked, model)

    def save(self, path: str | Path) -> None:
        """Write the listener to a safetensors file, in half precision.

        Parameters
        ----------
        path : str or Path
            The file; it is overwritten.
        """
        from safetensors.numpy import save_file

        from lastlayer.files import write_atomically

        arrays = {"particles": self.particles, **vars(self.network), **vars(self.coverage)}
        about: dict[str, Any] = {"model": self.model.fingerprint, "name": self.model.name}
        about |= {"outputs": self.outputs, "layer": self.layer, "far": self.far}
        halves = {n: np.ascontiguousarray(a, dtype=np.float16) for n, a in arrays.items()}
        with write_atomically(Path(path)) as temporary:
            save_file(halves, temporary, {"listener": json.dumps(about)})

    def ask(self, text: str, role: str | None = None) -> pd.DataFrame:
        """Ask a sentence about each of its content words, after every word; or about a role.

        Parameters
        ----------
        text : str
            An English sentence.
        role : str, optional
            With it, who fills this role: one word at most, so the beliefs about the words heard so
            far and about "no word" add up to one.

        Returns
        -------
        DataFrame
            One row for each word, each probe heard so far and each role: the network's own
            probability, the posterior's with a 90 % interval, its epistemic part in nats, and the
            word's surprisal for the language model. `attrs` holds the distance of each probe's
            state from those of the fit, relative to the largest that counts as covered.
        """
        return self.ask_all([text], role)[0]

    def ask_all(self, texts: Sequence[str], role: str | None = None) -> list[pd.DataFrame]:
        """Ask several sentences at once, which the language model reads together.

        Parameters
        ----------
        texts : sequence of str
            English sentences.
        role : str, optional
            As for `ask`.

        Returns
        -------
        list of DataFrame
            As `ask` returns it, one for each sentence.
        """
        if role not in (None, *self.outputs):
            raise UserError(f"there is no role {role!r}; ask about {', '.join(self.outputs)}.")
        if any(len(text.split()) > MOST_WORDS for text in texts):
            raise UserError(f"a sentence has more than {MOST_WORDS} words; cut it into sentences.")
        reading = self.model.read(texts, [self.layer])
        tables = []
        for number, text in enumerate(texts):
            place = slice(int(reading.edges[number]), int(reading.edges[number + 1]))
            words = [word.strip(PUNCTUATION) or word for word in text.split()]
            probes = find_probes(words)
            asked = [(after, probe) for after in range(len(words)) for probe in probes]
            heard = np.array([pair for pair in asked if pair[1] <= pair[0]]).reshape(-1, 2)
            inputs = pick_inputs(reading, self.layer, *(heard.T + place.start))
            table = self._tabulate(words, heard, inputs, role)
            table["surprisal"] = reading.surprisal[place][table["position"] - 1]
            last = heard[:, 0] == len(words) - 1
            far = self.coverage.measure(self.network.project(inputs.take(last))) / self.far
            names = np.array(list_names(text.split()))[heard[last, 1]]
            table.attrs["distance"] = dict(zip(names.tolist(), far.round(3).tolist(), strict=True))
            tables.append(table)
        return tables

    def _tabulate(
        self, words: list[str], heard: np.ndarray, inputs: Inputs, role: str | None
    ) -> pd.DataFrame:
        """Return beliefs about pairs of a word that has been heard and a word that is asked."""
        psi = self.network.compute_features(inputs)
        trained, p = self.network.predict(psi), predict_draws(self.particles, psi)
        after, probes = heard.T
        names, roles = np.array(list_names(words), object)[probes], self.outputs
        if role is not None:
            ends, chosen = np.flatnonzero(np.diff(after, append=-1)) + 1, roles.index(role)
            trained, p = (share_role(one[..., chosen], after) for one in (trained, p))
            names = np.insert(names, ends, "no word")
            after, roles = np.insert(after, ends, after[ends - 1]), (role,)
        beliefs, (low, high) = combine_members(list(p)), np.quantile(p, [0.05, 0.95], axis=0)
        N, K = low.shape
        return pd.DataFrame(
            {
                "position": np.repeat(after + 1, K),
                "word": np.repeat([words[one] for one in after], K),
                "probe": np.repeat(names, K),
                "role": np.tile(roles, N),
                "trained": trained.ravel(),
                "posterior": beliefs.probability.ravel(),
                "low": low.ravel(),
                "high": high.ravel(),
                "epistemic": np.maximum(beliefs.information, 0).ravel(),
            }
        )


def share_role(p: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return P(word has the role | one word at most has it), and after each word P(none has it).

    >>> share_role(np.array([0.5, 0.5, 0.75]), np.array([2, 3, 3]))[:, 0]
    array([0.5, 0.5, 0.2, 0.6, 0.2])
    """
    parts = []
    for position in np.unique(after):
        own = np.clip(p[..., after == position], FLOOR, 1 - FLOOR)
        odds = np.append(own / (1 - own), np.ones((*own.shape[:-1], 1)), axis=-1)
        parts.append(odds / odds.sum(axis=-1, keepdims=True))
    return np.concatenate(parts, axis=-1)[..., None]


def find_probes(words: Sequence[str]) -> list[int]:
    """Return the numbers of the content words of a sentence; the last word where there is none.

    >>> find_probes("The mouse wasn’t eaten by the cheese.".split())
    [1, 3, 6]
    """
    bare = [re.split("n?['’]", word.strip(PUNCTUATION).lower())[0] for word in words]
    chosen = [n for n, word in enumerate(bare) if word and word not in FUNCTION_WORDS]
    return chosen or [len(words) - 1]


def list_names(words: Sequence[str]) -> list[str]:
    """Return the names of probes: words without punctuation; those that occur again are numbered.

    >>> list_names(["The", "dog", "bit", "a", "dog."])
    ['The', 'dog', 'bit', 'a', 'dog (2)']
    """
    bare = [word.strip(PUNCTUATION) or word for word in words]
    numbers = [bare[: place + 1].count(word) for place, word in enumerate(bare)]
    return [f"{word} ({n})" if n > 1 else word for word, n in zip(bare, numbers, strict=True)]


def fit_roles(
    lm: str | Path | None = None, *, sentences: int = 8_000, layer: int | None = None, seed: int = 0
) -> EnglishListener:
    """Fit a listener to sentences of `english.toml`, whose roles are known.

    Parameters
    ----------
    lm : str or Path, optional
        The language model.
    sentences : int
        How many it is trained on; about a fifth as many, of other words, are held out.
    layer : int, optional
        The layer that is read; two thirds of the way up unless given.
    seed : int
        Decides the sentences and the first weights.
    """
    model = LanguageModel(lm)
    chosen = layer or model.choose_layer()
    world, surface = load_world(), Surface.load()
    lexicons: dict[Lexicon, int] = {"training": sentences, "held out": max(20, sentences * 3 // 16)}
    parts = []
    for number, (lexicon, size) in enumerate(lexicons.items(), start=seed + 1):
        drawn = draw_sentences(world, surface, size, number, lexicon)
        reading = model.read([one.text for one in drawn], [chosen])
        parts.append(collect_rows(drawn, reading, chosen, seed=number))
    return _fit(Question(parts[0], parts[1], parts[1], seed), OUTPUTS, chosen, model)


def fit_english(
    sentences: Sequence[str],
    labels: Mapping[Any, Any] | pd.DataFrame,
    *,
    words: Sequence[str | int] | None = None,
    lm: str | Path | None = None,
    layer: int | None = None,
    seed: int = 0,
) -> EnglishListener:
    """Fit a listener to yes/no labels of your own, a few hundred or more.

    Parameters
    ----------
    sentences : sequence of str
        A sentence for each label; may repeat.
    labels : mapping or DataFrame
        A column of 0 and 1 for each question.
    words : sequence of str or int, optional
        The word of each sentence that the label is about, or its number from 1. Without it labels
        are about sentences, and the last word is asked.
    lm, layer, seed
        As for `fit_roles`.

    Returns
    -------
    EnglishListener
        Its `ask` has your questions in the column `role`.
    """
    table = pd.DataFrame({name: pd.Series(list(labels[name])) for name in labels})
    targets = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float32)
    if not table.size or len(table) != len(sentences) or not np.isin(targets, [0, 1]).all():
        raise UserError(
            "labels are at least one column of 0 and 1, with one for each sentence; mend them."
        )
    model = LanguageModel(lm)
    chosen = layer or model.choose_layer()
    names = list(dict.fromkeys(sentences))
    reading = model.read(names, [chosen])
    numbers = np.array([names.index(one) for one in sentences])
    asked = words if words is not None else [len(one.split()) for one in sentences]
    probe = np.array([_find_word(one, word) for one, word in zip(sentences, asked, strict=True)])
    ends = reading.edges[numbers + 1] - 1
    inputs = pick_inputs(reading, chosen, ends.tolist(), (reading.edges[numbers] + probe).tolist())
    rows = Rows(inputs, targets, numbers, probe)
    held = numbers % HELD_OUT == HELD_OUT - 1
    if held.sum() < 30:
        raise UserError(
            f"{len(names)} different sentences are too few, since a fifth of them is held out to "
            "choose the prior; label at least 150."
        )
    outputs = tuple(str(name) for name in labels)
    fit, rest = rows.take(~held), rows.take(held)
    return _fit(Question(fit, rest, rest, seed), outputs, chosen, model)


def _find_word(sentence: str, word: str | int) -> int:
    """Return the number of a word in its sentence, from 0."""
    words = [one.strip(PUNCTUATION).lower() for one in sentence.split()]
    if isinstance(word, str) and not word.isdecimal():
        if word.lower() not in words:
            raise UserError(f"the word {word!r} is not in {sentence!r}; write it as it is there.")
        return words.index(word.lower())
    if not 1 <= int(word) <= len(words):
        raise UserError(f"{sentence!r} has {len(words)} words, so there is no word {word}.")
    return int(word) - 1


def _fit(
    question: Question, outputs: tuple[str, ...], layer: int, model: LanguageModel
) -> EnglishListener:
    """Train the query network, sample the posterior of its last layer, note what is covered."""
    with progress("fitting a listener") as advance:
        network = question.network
        advance(1, 2, "query network trained")
        particles = question.exact.particles
        advance(2, 2, "posterior sampled")
    x = network.project(question.fit.inputs)
    coverage = Coverage.fit(x)
    far = float(np.quantile(coverage.measure(x), FAR))
    return EnglishListener(network, coverage, particles, outputs, layer, far, model)
