"""What every word does to an English listener, in columns as `equivocal measure` has for worlds.

semantic_update     Σ |gestalt_t − gestalt_{t−1}|, the change of the language model's state
bayesian_surprise   change of the beliefs about the words heard before, Σ KL(b_t ‖ b_{t−1})
uncertainty         entropy of the beliefs about all words heard, and of that
epistemic           the part that more sentences would remove
surprisal, entropy  of the language model: −log P(word), and of its next word
agent, patient      the likeliest word in the role, and the belief that it has it
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equivocal.english.comprehenders import compute_entropy
from equivocal.english.language_model import PUNCTUATION
from equivocal.english.listener import EnglishListener
from equivocal.store import read_cells
from lastlayer.errors import UserError

NAMED = ("agent", "patient")


def read_items(path: str | Path) -> pd.DataFrame:
    """Read a table of sentences: `sentence`, and perhaps `item`, `condition`, `critical_word`."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number, cells in read_cells(path, ["sentence"]):
        row = {"item": str(len(rows) + 1), "condition": ""} | cells
        words = [word.strip(PUNCTUATION) for word in row["sentence"].split()]
        key, mistake = (row["item"], row["condition"]), ""
        if not words:
            mistake = "has no sentence"
        elif row.get("critical_word") not in (None, "", *words):
            mistake = "has a critical word that is not in it"
        elif key in rows:
            mistake = f"is the second of item {key[0]!r} in condition {key[1]!r}"
        if mistake:
            raise UserError(f"{path}, row {number} {mistake}; mend it.")
        rows[key] = row
    return pd.DataFrame(list(rows.values()))


def measure_sentences(listener: EnglishListener, items: pd.DataFrame) -> pd.DataFrame:
    """Measure every word of the sentences that `read_items` returned.

    Returns
    -------
    DataFrame
        condition, item, position, word, critical, and the measures.
    """
    texts = items["sentence"].tolist()
    tables = listener.ask_all(texts)
    reading = listener.model.read(texts, [listener.layer])
    parts = []
    for number, (row, table) in enumerate(zip(items.to_dict("records"), tables, strict=True)):
        place = slice(int(reading.edges[number]), int(reading.edges[number + 1]))
        gestalt = reading.gestalt[listener.layer][place].astype(np.float32)
        update = np.abs(np.diff(gestalt, axis=0, prepend=0)).sum(axis=1)
        words = [word.strip(PUNCTUATION) for word in texts[number].split()]
        part = pd.DataFrame(
            {
                "condition": row["condition"],
                "item": row["item"],
                "position": range(1, len(words) + 1),
                "word": words,
                "critical": [w == row.get("critical_word") for w in words],
                "semantic_update": update,
                "surprisal": reading.surprisal[place],
                "entropy": reading.entropy[place],
            }
        )
        parts.append(part.join(_summarize_beliefs(table), on="position"))
    return pd.concat(parts, ignore_index=True)


def _summarize_beliefs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the measures of beliefs after each word, from the table of a listener."""
    table = table.assign(entropy=compute_entropy(table["posterior"].to_numpy()))
    summed = table.groupby("position")[["entropy", "epistemic"]].sum()
    summed = summed.rename(columns={"entropy": "uncertainty"})
    beliefs = table.set_index(["position", "probe", "role"])["posterior"]
    b = beliefs.clip(1e-7, 1 - 1e-7).unstack("position")
    before = b.shift(axis=1)
    change = b * np.log(b / before) + (1 - b) * np.log((1 - b) / (1 - before))
    summed["bayesian_surprise"] = change.sum(min_count=1)
    for role in (role for role in NAMED if role in set(table["role"])):
        best = table[table["role"] == role].groupby("position")["posterior"].idxmax()
        chosen = table.loc[best].set_index("position")
        summed[role], summed[f"{role}_belief"] = chosen["probe"], chosen["posterior"]
    return summed


def find_doubt(table: pd.DataFrame, roles: Sequence[str] = NAMED) -> tuple[str, float]:
    """Find the word that raised the doubt about the words before it most.

    Returns
    -------
    word, rise
        The word, and by how many nats the entropy of beliefs about earlier words rose, on average.
    """
    chosen = table[table["role"].isin(roles)]
    entropy = chosen.assign(entropy=compute_entropy(chosen["posterior"].to_numpy()))
    wide = entropy.pivot_table(index=["probe", "role"], columns="position", values="entropy")
    rises = wide.diff(axis=1).mean()
    if not rises.notna().any():
        return "", 0.0
    at: Any = rises.idxmax()
    return str(table.loc[table["position"] == at, "word"].iloc[0]), float(rises[at])


def describe_reading(table: pd.DataFrame) -> str:
    """Name the likeliest agent and patient after the last word; "" if these roles are not asked."""
    last = table[table["position"] == table["position"].max()]
    asked = [last[last["role"] == role] for role in NAMED]
    best = [rows.loc[rows["posterior"].idxmax()] for rows in asked if len(rows)]
    return ", ".join(
        f"{row.role} {row.probe!r} {row.posterior:.2f} ({row.low:.2f}–{row.high:.2f})"
        for row in best
    )
