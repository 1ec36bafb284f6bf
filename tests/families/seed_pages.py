"""What the four first families have in common: the values every page lists, with their layouts, and small helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import nnatlas
from nnatlas import families
from nnatlas.tiny import byte_tokenizer, tiny_model

IDS = torch.arange(40, 52)[None]
IMPLEMENTATIONS = ("sdpa", "eager")
RESIDUAL, PATTERN, NEURONS = "Residual [batch seq hidden_size]", "Pattern [batch num_heads query key]", "Neurons"
PAGE = {
    "logits": "Logits [batch seq vocab_size]",
    "token_embeddings": RESIDUAL,
    "final_norm_output": RESIDUAL,
    "lm_head_output": "Logits [batch seq vocab_size]",
    "next_token_probs": "NextTokenProbs [batch vocab_size]",
    "input_ids": "Tokens [batch seq]",
    "attention_mask": "Tokens [batch seq]",
    "input_size": "Scalar",
    "block.layer_input": RESIDUAL,
    "block.attention_norm_output": RESIDUAL,
    "block.layer_mid": RESIDUAL,
    "block.mlp_norm_output": RESIDUAL,
    "block.mlp_input": RESIDUAL,
    "block.layer_output": RESIDUAL,
    "self_attn.attention_queries": "Queries [batch num_heads seq qk_head_dim]",
    "self_attn.attention_keys": "Keys [batch num_kv_heads seq qk_head_dim]",
    "self_attn.attention_values": "Values [batch num_kv_heads seq head_dim]",
    "self_attn.attention_scores": PATTERN,
    "self_attn.attention_probabilities": PATTERN,
    "self_attn.attention_head_outputs": "HeadOutputs [batch seq num_heads head_dim]",
    "self_attn.attention_premix": "HeadOutputs [batch seq num_heads head_dim]",
    "self_attn.attention_output": RESIDUAL,
    "mlp.mlp_activation": "Neurons [batch seq intermediate_size]",
    "mlp.mlp_neurons": "Neurons [batch seq intermediate_size]",
    "mlp.mlp_output": RESIDUAL,
}


def tiny(model_type: str, implementation: str, overrides: dict[str, Any] | None = None) -> Any:
    """A small random model; the same numbers at every call, whatever the implementation."""
    row = families.find(model_type)
    made = tiny_model(model_type, {**row.tiny, **(overrides or {})}, attn_implementation=implementation)
    return nnatlas.load(made.requires_grad_(False), tokenizer=byte_tokenizer())


def logits(model: Any, edit: Callable[[], Any] = lambda: None) -> Tensor:
    """The logits of a run whose body is `edit`."""
    with model.trace(IDS) as run:
        edit()
    return run.output.logits


def assert_page_is_listed(model: Any, absent: dict[str, str]) -> None:
    """`support()` and `print(model)` have every value of the page, with its layout or the reason why there is none."""
    support, printed = model.support(), repr(model)
    for key, layout in PAGE.items():
        name = key.rpartition(".")[2]
        if key in absent:
            assert absent[key] in support[key]
            assert f"({name}): not available: {support[key]}" in printed
        else:
            assert support[key] is None
            assert str(support.rows[key].layout) == layout
            assert f"({name}) -> {layout}" in printed


def assert_identity_holds(model: Any, block: int = 1) -> None:
    """x + attention + mlp is the block's output, in the order in which the blocks add."""
    layer = model.layers[block]
    names = ("layer_input", "self_attn.attention_output", "mlp.mlp_output", "layer_output")
    found = model.collect(IDS, [f"layers.{block}.{name}" for name in names])
    entering, attention, mlp, leaving = found.values()
    assert layer is not None
    torch.testing.assert_close(entering + attention + mlp, leaving)
    assert not torch.allclose(entering + attention, leaving)
    assert not torch.allclose(entering + mlp, leaving)


def assert_reads_out_as_the_logits(model: Any) -> None:
    found = model.collect(IDS, ["layers.-1.layer_output", "logits"])
    stream, given = found.values()
    assert torch.equal(model.project_on_vocab(stream), given)
    assert torch.equal(given, model._module(IDS).logits)


def rotation(model: Any, width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each pair's angle at each position, `[seq, width / 2]`, from theta alone (Su et al. 2021)."""
    theta = model.config.rope_parameters["rope_theta"]
    angles = torch.arange(IDS.shape[1])[:, None] / theta ** (torch.arange(0, width, 2) / width)
    return angles.cos(), angles.sin()


def rotated_pairs(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Dimensions 2i and 2i + 1 turned together."""
    even, odd = heads[..., 0::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


def rotated_halves(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Dimensions i and i + width / 2 turned together."""
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def split_heads(projected: Tensor, width: int) -> Tensor:
    """`[batch, seq, heads * width]` as `[batch, heads, seq, width]`."""
    return projected.unflatten(-1, (-1, width)).transpose(1, 2)


def heads_reached(model: Any, block: int, kv_head: int) -> list[int]:
    """The query heads whose mixed values change when one key/value head's values do."""
    attention = model.layers[block].self_attn
    with model.trace(IDS):
        before = attention.attention_head_outputs.clone()
    with model.trace(IDS):
        attention.attention_values[:, kv_head] += 1
        after = attention.attention_head_outputs.clone()
    moved = (before - after).abs().amax((0, 1, 3))
    return moved.nonzero()[:, 0].tolist()
