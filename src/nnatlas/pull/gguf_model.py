"""A GGUF file's config and weights in the form that transformers loads.

What is unusual: GGUF files of this layout store the rows of the query and key projections in rotary pairs, where
transformers rotates the first half of a head against the second; the rows are put back in order here.  Dequantizing and
the table of tensor names are the gguf package's.  A field or a tensor that is not understood is refused, not dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gguf
import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from ..errors import DamagedFile

_CONFIG_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.dimension_count": "head_dim",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
_HEAD = "output.weight"  # absent when the head shares the embedding's weight


class GGUFModel:
    """One GGUF file, opened: its fields, its tensors by name, and the config they make."""

    def __init__(self, path: str) -> None:
        reader = gguf.GGUFReader(path)
        self.fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture: str = self.fields["general.architecture"]
        self.config = self._config()

    def _config(self) -> PreTrainedConfig:
        """The transformers config that the file's fields describe; a field that has no counterpart here is an error, not a guess.

        The head is tied where the file holds no weights of its own for it.
        """
        prefix = f"{self.architecture}."
        given = {name.removeprefix(prefix): value for name, value in self.fields.items() if name.startswith(prefix)}
        if unknown := sorted(given.keys() - _CONFIG_FIELDS.keys()):
            raise DamagedFile(f"the GGUF file has fields that the conversion does not know: {', '.join(unknown)}")
        settings = {_CONFIG_FIELDS[name]: _shortest(value) for name, value in given.items()}
        settings["rope_parameters"] = {"rope_type": "default", "rope_theta": settings.pop("rope_theta")}
        tokens = {
            f"{kind}_token_id": self.fields.get(f"tokenizer.ggml.{name}_token_id") for kind, name in _SPECIAL.items()
        }
        config = AutoConfig.for_model(
            self.architecture, **settings, **tokens, tie_word_embeddings=_HEAD not in self.tensors, dtype=torch.float32
        )
        config.architectures = [type(_shell(config)).__name__]
        return config

    def weights(self, paired_rotary: bool, done: Callable[[int], None]) -> dict[str, torch.Tensor]:
        """Every parameter by its name in transformers, float32, contiguous; `done` is told how many are read."""
        weights = {}
        for name, shape, stored in self._pairs():
            array = gguf.dequantize(self.tensors[stored].data, self.tensors[stored].tensor_type)
            if paired_rotary and stored.split(".")[-2] in ("attn_q", "attn_k"):
                array = _halves(array, self.config.head_dim)
            if array.shape != shape:
                raise DamagedFile(f"tensor {stored} has shape {array.shape}; the config makes {name} {shape}")
            # numpy.array copies: what GGUF stores unquantized is otherwise a view of the mapped, read-only file
            weights[name] = torch.from_numpy(numpy.array(array, dtype=numpy.float32, order="C"))
            done(len(weights))
        return weights

    def _pairs(self) -> Iterator[tuple[str, tuple[int, ...], str]]:
        """(name in transformers, shape, name in the file), refusing a file that has tensors over or too few."""
        architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == self.architecture)
        table = gguf.get_tensor_name_map(architecture, self.config.num_hidden_layers)
        parameters = {name: tuple(value.shape) for name, value in _shell(self.config).state_dict().items()}
        stored = {name: table.get_name(name, try_suffixes=(".weight", ".bias")) or name for name in parameters}
        if self.config.tie_word_embeddings:
            stored = {name: other for name, other in stored.items() if other != _HEAD}
        if differ := set(stored.values()) ^ self.tensors.keys():
            raise DamagedFile(f"the GGUF file and its config disagree on these tensors: {', '.join(sorted(differ))}")
        return ((name, parameters[name], other) for name, other in stored.items())


_SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding"}


def _shell(config: PreTrainedConfig) -> torch.nn.Module:
    """The model without memory for its weights, for its names and shapes."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def _shortest(value: Any) -> Any:
    """GGUF stores float32: 1e-05 comes back as 9.999999747378752e-06 unless it is written in its own precision."""
    return float(str(numpy.float32(value))) if isinstance(value, float) else value


def _halves(rows: numpy.ndarray, head_dim: int) -> numpy.ndarray:
    """[heads * head_dim, ...], each head's rows in pairs -> the same, all first members before all second ones."""
    pairs = rows.reshape(-1, head_dim // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
