"""A tiny language model with random weights, made by `transformers`, which the tests read with."""

from pathlib import Path

import pytest

from equivocal.english.sentences import Sentence, Surface, draw_sentences, load_world
from needs import needs

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3}


@pytest.fixture(scope="session")
def drawn() -> list[Sentence]:
    return draw_sentences(load_world(), Surface.load(), 3_000, seed=5)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, drawn: list[Sentence]) -> Path:
    """The folder of a causal model that knows every letter as a token."""
    needs("transformers")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(
        {letter for one in drawn for letter in one.text} | set("abcdefghijklmnopqrstuvwxyz'")
    )
    known = {letter: number for number, letter in enumerate(["<s>", "<unk>", *letters])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    torch.manual_seed(0)
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=len(known), **SIZES, **heads)
    folder = tmp_path_factory.mktemp("tiny-model")
    LlamaForCausalLM(config).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")
    fast.save_pretrained(folder)
    return folder
