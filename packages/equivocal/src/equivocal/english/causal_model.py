"""Causal language models in PyTorch: tokens in, the state after every token and layer out.

Any model that `transformers` loads will do. A GGUF file of the Llama family, as the default model
is, is read directly: importing `transformers` and unpacking by it would take ten seconds longer.
"""

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lastlayer.errors import UserError

if TYPE_CHECKING:
    from gguf import GGUFReader
    from tokenizers import Tokenizer
    from torch import Tensor

EPSILON = "llama.attention.layer_norm_rms_epsilon"
FAMILY = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2"}
FAMILY |= {"tokenizer.ggml.pre": "smollm"}
LLAMA = {"token_embd", "output", "output_norm", "attn_norm", "attn_q", "attn_k", "attn_v"}
LLAMA |= {"attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}  # its tensors


class HubModel:
    """A model that `transformers` loads: a folder, a GGUF file, a name on its hub.

    Parameters
    ----------
    place : Path or str
        Where the model is.
    """

    def __init__(self, place: Path | str) -> None:
        os.environ.setdefault("TQDM_DISABLE", "1")  # there are bars of ours
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        given: dict[str, Any] = {"pretrained_model_name_or_path": place}
        if isinstance(place, Path) and place.suffix == ".gguf":
            given = {"pretrained_model_name_or_path": place.parent, "gguf_file": place.name}
        try:
            tokenizer = AutoTokenizer.from_pretrained(**given)
            model = AutoModelForCausalLM.from_pretrained(**given, dtype=torch.float32)
            self.tokenizer: Tokenizer = tokenizer.backend_tokenizer
        except (OSError, ValueError, KeyError, AttributeError, ImportError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise UserError(f"no language model can be loaded from {place}: {reason}.") from None
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.to(self.device).eval()
        self.begin = [one for one in (tokenizer.bos_token_id,) if one is not None]
        self.num_layers = int(model.config.num_hidden_layers)
        with torch.inference_mode():  # do states change with the token that follows?
            one, other = self.run(torch.tensor([[0, 1, 2], [0, 1, 3]], device=self.device))[0][-1]
        if not torch.allclose(one[:2], other[:2], rtol=1e-3, atol=1e-3):
            raise UserError(f"{place} hears what comes later; name a causal model by --lm.")

    def run(self, ids: "Tensor") -> "tuple[list[Tensor], Tensor]":
        """Return the states of all layers, the embeddings first, and the logits of what follows."""
        out = self._model(input_ids=ids, output_hidden_states=True)
        return list(out.hidden_states), out.logits


class GgufLlama:
    """A model of the Llama family from a GGUF file.

    Parameters
    ----------
    reader : gguf.GGUFReader
        The file.
    """

    def __init__(self, reader: "GGUFReader") -> None:
        import gguf
        import torch

        self._fields = reader.fields
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        unpacked = {
            one.name.removesuffix(".weight"): np.array(gguf.dequantize(one.data, one.tensor_type))
            for one in reader.tensors
        }
        self._weights = {n: torch.from_numpy(w).to(self.device) for n, w in unpacked.items()}
        begin = "tokenizer.ggml.bos_token_id"
        self.begin = [self._read(begin)] if begin in self._fields else []
        self.num_layers = int(self._read("llama.block_count"))

    @staticmethod
    def reads(reader: "GGUFReader") -> bool:
        """Return whether this class knows all that is in a file."""
        family = [reader.fields[one].contents() for one in FAMILY if one in reader.fields]
        kinds = {re.sub(r"^blk\.\d+\.", "", one.name) for one in reader.tensors}
        return family == list(FAMILY.values()) and kinds <= {f"{one}.weight" for one in LLAMA}

    def _read(self, name: str) -> Any:
        return self._fields[name].contents()

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer, of the kind of GPT-2."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        known = {one: n for n, one in enumerate(self._read("tokenizer.ggml.tokens"))}
        merges = [tuple(one.split(" ")) for one in self._read("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(known, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return tokenizer

    def run(self, ids: "Tensor") -> "tuple[list[Tensor], Tensor]":
        """Return the states of all layers, the embeddings first, and the logits of what follows."""
        import torch
        from torch.nn.functional import linear

        x = self._weights["token_embd"][ids]
        width = x.shape[-1] // self._read("llama.attention.head_count")
        rates = self._read("llama.rope.freq_base") ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(ids.shape[1]), rates)
        turns = torch.polar(torch.ones_like(angles), angles).to(self.device)
        states = [x]
        for number in range(self.num_layers):
            x = self._run_block(x, f"blk.{number}.", turns)
            states.append(x)
        states[-1] = self._normalize(x, "output_norm")
        head = self._weights.get("output", self._weights["token_embd"])
        return states, linear(states[-1], head)

    def _run_block(self, x: "Tensor", block: str, turns: "Tensor") -> "Tensor":
        """Attention with rotated positions, then a gated layer."""
        import torch
        from torch.nn import functional

        def apply(name: str, values: "Tensor") -> "Tensor":
            return functional.linear(values, self._weights[block + name])

        def rotate(values: "Tensor") -> "Tensor":
            # GGUF keeps the two numbers of a pair side by side
            pairs = torch.view_as_complex(values.unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * turns).flatten(-2)

        h, width = self._normalize(x, f"{block}attn_norm"), 2 * turns.shape[-1]
        each = (apply(f"attn_{one}", h).unflatten(-1, (-1, width)) for one in "qkv")
        q, k, v = (one.transpose(1, 2) for one in each)
        heard = functional.scaled_dot_product_attention(
            rotate(q), rotate(k), v, is_causal=True, enable_gqa=True
        )
        x = x + apply("attn_output", heard.transpose(1, 2).flatten(2))
        h = self._normalize(x, f"{block}ffn_norm")
        gate = functional.silu(apply("ffn_gate", h))
        return x + apply("ffn_down", gate * apply("ffn_up", h))

    def _normalize(self, x: "Tensor", name: str) -> "Tensor":
        from torch.nn.functional import rms_norm

        return rms_norm(x, x.shape[-1:], self._weights[name], self._read(EPSILON))


def load_causal_model(place: Path | str) -> HubModel | GgufLlama:
    """Load a model by the way that fits it.

    Parameters
    ----------
    place : Path or str
        A folder, a GGUF file, or a name on the hub.
    """
    if isinstance(place, Path) and place.suffix == ".gguf":
        reader = _open_gguf(place)
        if GgufLlama.reads(reader):
            return GgufLlama(reader)
    return HubModel(place)


def _open_gguf(path: Path) -> "GGUFReader":
    """Open a GGUF file as a plain array, which is three times as fast as a memory map."""
    import gguf

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        data = property(
            lambda self: self.plain, lambda self, mapped: setattr(self, "plain", np.asarray(mapped))
        )

    try:
        return Reader(path)
    except ValueError as error:
        raise UserError(f"{path} is no GGUF file: {error}.") from None
