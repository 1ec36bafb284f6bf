"""Claims that the notes of several families make: each function asserts one on a tiny model, and raises where it is false.

A claim's argument says what it is run on: `model` is the family's tiny model, or the checkpoint that nnatlas brings for it,
`smollm2` is SmolLM2.  Models are shared between claims, so a claim leaves them as it found them; what needs other settings
builds a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tests.families.seed_pages import IDS, heads_reached, logits, rotated_halves, rotated_pairs, tiny
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import nnatlas

# --- the block ---------------------------------------------------------------------------------------------------------


def attention_blocks(model: Any) -> list[int]:
    """The blocks that have attention."""
    return [number for number, block in enumerate(model.layers) if hasattr(block, "self_attn")]


def of_block(model: Any, block: int, names: str) -> list[Tensor]:
    """Some values of one block, by name."""
    return list(model.collect(IDS, [f"layers.{block}.{name}" for name in names.split()]).values())


def contributions_sum(model: Any) -> None:
    """Input, attention's part and MLP's part make the output of every block, and none of the three can be left out."""
    for block in range(model.num_layers):
        mixer = "self_attn" if block in attention_blocks(model) else "linear_attn"
        entering, mixed, mlp, leaving = of_block(
            model, block, f"layer_input {mixer}.attention_output mlp.mlp_output layer_output"
        )
        torch.testing.assert_close(entering + mixed + mlp, leaving)
        for part in (entering, mixed, mlp):
            assert (leaving - part).norm() < (entering + mixed + mlp).norm() * 10
            assert not torch.allclose(entering + mixed + mlp - part, leaving, atol=1e-3)


def contributions_are_module_outputs(model: Any) -> None:
    """What the block adds is what its two modules return, untouched."""
    block = model.layers[1]
    with model.trace(IDS):
        attention = block.self_attn.output
        added, mlp_returned, mlp_added = block.self_attn.attention_output, block.mlp.output, block.mlp.mlp_output
    assert torch.equal(attention[0] if isinstance(attention, tuple) else attention, added)
    assert torch.equal(mlp_returned[0] if isinstance(mlp_returned, tuple) else mlp_returned, mlp_added)


def pre_norms(model: Any) -> None:
    """Both sublayers read a norm of the stream, and write into the stream with no norm between."""
    block = model.layers[1]
    with model.trace(IDS):
        entering, read = block.layer_input.clone(), block.attention_norm_output.clone()
        given = block.self_attn.input.clone()
        added = block.self_attn.attention_output.clone()
        middle, normed, mlp_input = block.layer_mid.clone(), block.mlp_norm_output.clone(), block.mlp_input.clone()
    torch.testing.assert_close(block.attention_norm._module(entering), read)
    assert torch.equal(given, read)
    torch.testing.assert_close(entering + added, middle)
    torch.testing.assert_close(block.mlp_norm._module(middle), normed)
    assert torch.equal(normed, mlp_input)
    contributions_are_module_outputs(model)


def post_norms(model: Any) -> None:
    """Both sublayers read the stream itself; what they add is the output of a norm behind them."""
    block = model.layers[1]
    with model.trace(IDS):
        entering, read = block.layer_input.clone(), block.self_attn.input.clone()
        returned = block.self_attn.output[0].clone()
        attention = block.self_attn.attention_output.clone()
        read_by_mlp, written = block.mlp_input.clone(), block.mlp.output.clone()
        mlp, leaving = block.mlp.mlp_output.clone(), block.layer_output.clone()
    assert torch.equal(read, entering)
    torch.testing.assert_close(block.attention_post_norm._module(returned), attention)
    torch.testing.assert_close(entering + attention, read_by_mlp)
    torch.testing.assert_close(block.mlp_post_norm._module(written), mlp)
    torch.testing.assert_close(read_by_mlp + mlp, leaving)
    assert not torch.allclose(returned, attention, atol=1e-2)


def sandwich_norms(model: Any) -> None:
    """A norm before and a norm behind each sublayer; the contributions are the outputs of the ones behind."""
    block = model.layers[1]
    with model.trace(IDS):
        entering, read = block.layer_input.clone(), block.self_attn.input.clone()
        returned, attention = block.self_attn.output[0].clone(), block.self_attn.attention_output.clone()
        middle, read_by_mlp = block.layer_mid.clone(), block.mlp_input.clone()
        written, mlp, leaving = block.mlp.output.clone(), block.mlp.mlp_output.clone(), block.layer_output.clone()
    native = block._module
    torch.testing.assert_close(native.input_layernorm(entering), read)
    torch.testing.assert_close(native.post_attention_layernorm(returned), attention)
    torch.testing.assert_close(entering + attention, middle)
    torch.testing.assert_close(native.pre_feedforward_layernorm(middle), read_by_mlp)
    torch.testing.assert_close(native.post_feedforward_layernorm(written), mlp)
    torch.testing.assert_close(middle + mlp, leaving)


def absent_norms_say_why(model: Any) -> None:
    """The two norms that a post-norm block lacks are absent, each with what is read instead."""
    support = model.support()
    assert "layer_input" in support["block.attention_norm_output"]
    assert "layer_mid" in support["block.mlp_norm_output"]


def gated_mlp(model: Any) -> None:
    """The neurons are act(gate)·up, and the down projection's output is the MLP's."""
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        gate, activation, up = mlp.gate_proj.output.clone(), mlp.mlp_activation.clone(), mlp.up_proj.output.clone()
        neurons, returned = mlp.mlp_neurons.clone(), mlp.down_proj.output.clone()
        written = mlp.output.clone()
    torch.testing.assert_close(mlp.act_fn._module(gate), activation)
    torch.testing.assert_close(activation * up, neurons)
    assert torch.equal(returned, written)


def neurons_sum_to_the_output(model: Any) -> None:
    """Every neuron writes its own column of the down projection, weighed by its value."""
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        neurons, written = mlp.mlp_neurons.clone(), mlp.output.clone()
    native = mlp.down_proj._module
    weight = native.weight if isinstance(native, torch.nn.Linear) else native.weight.T
    bias = 0 if native.bias is None else native.bias
    torch.testing.assert_close(neurons @ weight.T + bias, written)


# --- norms ----------------------------------------------------------------------------------------------------------------


def root_mean_square(x: Tensor, eps: float) -> Tensor:
    """x over its root mean square, in float32."""
    wide = x.float()
    return wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()


def norms_cast_before_the_gain(model: Any) -> None:
    """In half precision the normed vector is rounded first and multiplied by the gain afterwards."""
    norm = type(model.layers[0].attention_norm._module)(64).bfloat16()
    norm.weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(1))
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    normed = root_mean_square(x, norm.variance_epsilon)
    assert torch.equal(norm(x), norm.weight * normed.bfloat16())
    assert not torch.equal(norm(x), (norm.weight.float() * normed).bfloat16())


def norms_multiply_by_one_plus_weight(model: Any) -> None:
    """A norm's gain is 1 + weight, so a weight of zero is a gain of one."""
    norm = model.layers[1].attention_norm._module
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(norm(x), root_mean_square(x, norm.eps) * (1 + norm.weight))
    assert not torch.allclose(norm(x), root_mean_square(x, norm.eps) * norm.weight, atol=0.1)


# --- queries, keys, positions --------------------------------------------------------------------------------------------


def turn(model: Any, kind: str | None = None, width: int | None = None) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each pair's angle at each position, `[seq, width / 2]` (Su et al. 2021).

    From the base alone; where the config stretches the rotary, from the frequencies that the model keeps.
    """
    rope, width = model.config.get_text_config().rope_parameters, width or model.qk_head_dim
    rope = rope if "rope_theta" in rope else rope[kind]
    frequencies = rope["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    if rope["rope_type"] != "default":
        rotary = next(module for module in model._module.modules() if hasattr(module, "inv_freq"))
        assert not torch.allclose(rotary.inv_freq, frequencies)
        frequencies = rotary.inv_freq
    angles = torch.arange(IDS.shape[1])[:, None] * frequencies
    return angles.cos(), angles.sin()


def before_and_after_rotary(model: Any, block: int) -> list[tuple[Tensor, Tensor]]:
    """Queries, then keys, each as they go into the rotary and as they come out."""
    queries, keys, turned_queries, turned_keys = of_block(
        model,
        block,
        "self_attn.unrotated_queries self_attn.unrotated_keys self_attn.attention_queries self_attn.attention_keys",
    )
    return [(queries, turned_queries), (keys, turned_keys)]


def rotary_of_halves(model: Any) -> None:
    """Dimension i turns with dimension i + half the width, over the whole head, in every block."""
    for block in attention_blocks(model):
        for before, after in before_and_after_rotary(model, block):
            cos, sin = turn(model)
            torch.testing.assert_close(rotated_halves(before, cos, sin), after, rtol=0, atol=1e-5)
            assert (rotated_pairs(before, cos, sin) - after).abs().max() > 0.05
            assert (before - after)[:, :, 1:].abs().max() > 0.05


def position_0_is_not_turned(model: Any) -> None:
    """At position 0 the rotation is the identity: what comes out is what went in."""
    for before, after in before_and_after_rotary(model, attention_blocks(model)[0]):
        assert torch.equal(before[:, :, 0], after[:, :, 0])
        assert not torch.allclose(before[:, :, 1:], after[:, :, 1:], atol=1e-2)


def positions_are_relative(model: Any) -> None:
    """Moving every position by the same step leaves the logits where they were."""
    length = IDS.shape[1]
    with model.trace(IDS, position_ids=torch.arange(length)[None] + 3):
        moved = model.logits.clone()
    torch.testing.assert_close(moved, logits(model), rtol=0, atol=1e-4)


def heads_are_normed_alone(model: Any) -> None:
    """Each query and key head has unit mean square, times one gain that all heads share, before the rotary."""
    attention = model.layers[attention_blocks(model)[0]].self_attn
    queries, keys = before_and_after_rotary(model, attention_blocks(model)[0])
    for (heads, _), norm in ((queries, attention.q_norm._module), (keys, attention.k_norm._module)):
        assert norm.weight.shape == (model.qk_head_dim,)
        gain = norm.weight if hasattr(norm, "variance_epsilon") else 1 + norm.weight
        torch.testing.assert_close((heads / gain).square().mean(-1), torch.ones(heads.shape[:-1]), rtol=0, atol=0.05)


def no_query_or_key_norms(model: Any) -> None:
    """The attention has no norm on queries or keys."""
    names = [name for name, _ in model.layers[0].self_attn._module.named_modules()]
    assert not [name for name in names if "norm" in name]


def scaled_slice_is_normed_away(model: Any) -> None:
    """Doubling a head's slice of the query projection does next to nothing; doubling its queries does not."""
    attention, width = model.layers[attention_blocks(model)[0]].self_attn, model.qk_head_dim
    projection = attention.q_proj

    def double_slice() -> None:
        projection.output[..., width : 2 * width] *= 2

    def double_queries() -> None:
        attention.attention_queries[:, 1] *= 2

    plain = logits(model)
    slice_moves = (logits(model, double_slice) - plain).abs().max()
    queries_move = (logits(model, double_queries) - plain).abs().max()
    assert slice_moves < 1e-2 * queries_move
    assert queries_move > 1e-3


def window_limits_sliding_blocks(model: Any) -> None:
    """A sliding block attends to the last few positions, its own included; a full one to all before."""
    kinds, window, length = (
        model.config.get_text_config().layer_types,
        model.config.get_text_config().sliding_window,
        IDS.shape[1],
    )
    assert {"sliding_attention", "full_attention"} <= set(kinds)
    assert window < length
    causal = torch.ones(length, length).tril()
    for block, kind in enumerate(kinds):
        (pattern,) = of_block(model, block, "self_attn.attention_probabilities")
        seen = causal.triu(1 - window) if kind == "sliding_attention" else causal
        assert torch.equal((pattern > 0).float(), seen.expand_as(pattern))


# --- heads ----------------------------------------------------------------------------------------------------------------


def kv_heads_reach_their_group(model: Any) -> None:
    """An edit to a key/value head's values changes its own query heads, next to one another, and no others."""
    block, group = attention_blocks(model)[-1], model.num_heads // model.num_kv_heads
    assert group > 1
    for head in range(model.num_kv_heads):
        assert heads_reached(model, block, head) == list(range(head * group, (head + 1) * group))


def every_head_has_its_own_keys(model: Any) -> None:
    """There are as many key/value heads as query heads: an edit to one reaches one."""
    assert model.num_kv_heads == model.num_heads
    assert [heads_reached(model, 1, head) for head in range(model.num_heads)] == [[n] for n in range(model.num_heads)]


def keys_and_values_before_repeating(model: Any) -> None:
    """Keys and values are served with as many heads as there are, not with as many as there are queries."""
    block = attention_blocks(model)[-1]
    keys, values = of_block(model, block, "self_attn.attention_keys self_attn.attention_values")
    assert keys.shape[1] == values.shape[1] == model.num_kv_heads < model.num_heads


def heads_sum_to_the_output(model: Any) -> None:
    """Each head's part, through its slice of the output projection, and the parts make the module's output."""
    block = attention_blocks(model)[-1]
    attention = model.layers[block].self_attn
    with model.trace(IDS):
        parts, returned = attention.attention_head_contributions.clone(), attention.o_proj.output.clone()
    bias = getattr(attention.o_proj._module, "bias", None)
    torch.testing.assert_close(parts.sum(2) + (0 if bias is None else bias), returned, rtol=0, atol=1e-5)
    assert parts.shape[2] == model.num_heads


def scores_are_scaled_by_head_width(model: Any) -> None:
    """Scores are queries times keys over the root of the head's width, in what the mask leaves visible."""
    block = attention_blocks(model)[-1]
    queries, keys, scores = of_block(
        model, block, "self_attn.attention_queries self_attn.attention_keys self_attn.attention_scores"
    )
    products = queries @ keys.repeat_interleave(model.num_heads // model.num_kv_heads, 1).mT * model.qk_head_dim**-0.5
    visible = torch.ones(IDS.shape[1], IDS.shape[1]).tril().bool()
    torch.testing.assert_close(scores[..., visible], products[..., visible], rtol=1e-4, atol=1e-5)


def rows_sum_to_one(model: Any) -> None:
    """Nothing takes a share of the attention beside the tokens."""
    (pattern,) = of_block(model, attention_blocks(model)[-1], "self_attn.attention_probabilities")
    torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:-1]))


def interior_on_every_load(model: Any) -> None:
    """Queries, scores and patterns are there under sdpa and eager alike, and the logits of both loads agree."""
    loads = [tiny(model.config.model_type, implementation) for implementation in ("sdpa", "eager")]
    block = attention_blocks(model)[-1]
    names = "self_attn.attention_queries self_attn.attention_scores self_attn.attention_probabilities"
    (queries, _, pattern), (same_queries, _, same_pattern) = (of_block(load, block, names) for load in loads)
    torch.testing.assert_close(queries, same_queries)
    torch.testing.assert_close(pattern, same_pattern)
    torch.testing.assert_close(*map(logits, loads), atol=5e-5, rtol=0)


def no_biases(model: Any) -> None:
    """By the type's default no projection of attention or MLP has a bias."""
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(default(model))
    assert [name for name, _ in made.named_parameters() if name.endswith("bias")] == []


# --- the ends ---------------------------------------------------------------------------------------------------------------


def logits_are_the_heads_output(model: Any) -> None:
    """Nothing is done to the head's output: no cap and no scale."""
    assert torch.equal(*model.collect(IDS, ["lm_head_output", "logits"]).values())


def half_precision_logits_are_coarse(model: Any) -> None:
    """In bfloat16 logits between 16 and 32 lie on a grid of 1/8; the head in float32 shows what that hides."""
    half = nnatlas.load(f"tiny:{model.config.model_type}", dtype=torch.bfloat16)
    normed, given = half.collect(IDS, ["final_norm_output", "logits"]).values()
    assert given.dtype == torch.bfloat16
    exact = normed.float() @ half.lm_head._module.weight.float().T
    assert 1e-4 < (exact - given.float()).abs().max() < 2**-7 * exact.abs().max()
    below, above = torch.tensor([16.0, 31.0], dtype=torch.bfloat16)
    up = torch.tensor(float("inf"), dtype=torch.bfloat16)
    assert float(below.nextafter(up) - below) == float(above.nextafter(up) - above) == 1 / 8


def last_block_reads_out_as_the_logits(model: Any) -> None:
    """`project_on_vocab` of the last block's output gives the logits bit for bit."""
    stream, given = model.collect(IDS, ["layers.-1.layer_output", "logits"]).values()
    assert torch.equal(model.project_on_vocab(stream), given)
    assert torch.equal(given, model._module(IDS).logits)


def capped_logits(model: Any) -> None:
    """The logits are cap·tanh(head / cap)."""
    cap = model.config.final_logit_softcapping
    raw, given = model.collect(IDS, ["lm_head_output", "logits"]).values()
    torch.testing.assert_close(cap * torch.tanh(raw / cap), given)
    assert not torch.allclose(raw, given)


def embeddings_are_scaled_inside_their_module(model: Any) -> None:
    """The embedding module multiplies by the root of the width itself, so its output is what enters the first block."""
    entering, embedded = model.collect(IDS, ["layers.0.layer_input", "token_embeddings"]).values()
    assert torch.equal(entering, embedded)
    rows = model.embed_tokens._module.weight[IDS]
    torch.testing.assert_close(embedded, rows * model.hidden_size**0.5)


def the_factor_on_embeddings_is_rounded(model: Any) -> None:
    """The root of the width is cast to the weights' type before embeddings are multiplied by it."""
    embedding = type(model.embed_tokens._module)
    for width, factor in ((3584, 59.75), (1152, 34.0), (2560, 50.5)):
        module = embedding(2, 3, None, embed_scale=width**0.5).bfloat16()
        module.weight.data.fill_(1.0)
        assert float(module(torch.tensor([1])).detach()[0, 0]) == factor


def embeddings_enter_as_they_are(model: Any) -> None:
    """What the embedding module looks up is what enters the first block."""
    entering, embedded = model.collect(IDS, ["layers.0.layer_input", "token_embeddings"]).values()
    assert torch.equal(entering, embedded)
    assert torch.equal(embedded, model.embed_tokens._module.weight[IDS])


def tied_by_default(model: Any) -> None:
    """By the type's default the head's weight is the embedding's, one tensor."""
    assert default(model).tie_word_embeddings is True
    assert model.lm_head._module.weight is model.embed_tokens._module.weight


def untied_by_default(model: Any) -> None:
    """By the type's default the head has a weight of its own."""
    assert default(model).tie_word_embeddings is False
    assert model.lm_head._module.weight is not model.embed_tokens._module.weight


# --- sizes --------------------------------------------------------------------------------------------------------------------


def default(model: Any) -> Any:
    """The configuration that the type has when nothing is said, which is that of a released checkpoint for many."""
    return CONFIG_MAPPING[model.config.model_type]()


def defaults(model: Any, **fields: Any) -> None:
    """The type's default configuration has these numbers."""
    config = default(model)
    assert {name: getattr(config, name) for name in fields} == fields


def built(model_type: str, **fields: Any) -> Any:
    """The model of a configuration, without memory: on the meta device."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**fields))


def shapes(module: Any, names: Iterable[str]) -> list[tuple[int, ...]]:
    """The shapes of some parameters, by name."""
    return [tuple(module.get_parameter(name).shape) for name in names]


def billions(module: Any) -> float:
    """Parameters in thousands of millions, tied ones once."""
    return sum(parameter.numel() for parameter in module.parameters()) / 1e9


# --- mixtures -------------------------------------------------------------------------------------------------------------------


def sparse_block(model: Any) -> int:
    """The last block with experts."""
    return max(number for number, block in enumerate(model.layers) if hasattr(block.mlp, "router"))


def dense_neurons_are_absent(model: Any) -> None:
    """A mixture has no neurons of its own: each expert has, as `expert_neurons(e)`."""
    reason = model.support()["mlp.mlp_neurons"] or ""
    assert "expert_neurons(e)" in reason


def routing_can_be_forced(model: Any) -> None:
    """Writing the router's logits changes which experts are chosen."""
    mlp = model.layers[sparse_block(model)].mlp

    def last_expert() -> None:
        mlp.router_logits[..., -1] = 1e4

    with model.trace(IDS):
        last_expert()
        chosen = mlp.expert_indices.clone()
    (before,) = of_block(model, sparse_block(model), "mlp.expert_indices")
    last = model.layers[sparse_block(model)].mlp.num_experts - 1
    assert (chosen == last).any(-1).all()
    assert not (before == last).any(-1).all()
    assert (logits(model, last_expert) - logits(model)).abs().max() > 1e-4


def experts_sum_to_the_routed_output(model: Any) -> None:
    """The routed part is the sum over the chosen experts of weight times down(neurons)."""
    block = sparse_block(model)
    mlp = model.layers[block].mlp
    with model.trace(IDS):
        indices, weights = mlp.expert_indices.clone(), mlp.expert_weights.clone()
        neurons = {expert: mlp.expert_neurons(expert) for expert in range(mlp.num_experts)}
        routed = mlp.routed_output.clone()
    experts, rebuilt = mlp.experts._module, torch.zeros_like(routed)
    for expert, found in neurons.items():
        row, position = found.positions.unbind(-1)
        weight = (weights * (indices == expert)).sum(-1)[row, position, None]
        matrix = experts.down_proj[expert] if getattr(experts, "is_transposed", False) else experts.down_proj[expert].T
        bias = getattr(experts, "down_proj_bias", None)
        written = found.neurons @ matrix + (0 if bias is None else bias[expert])
        rebuilt.index_put_((row, position), written * weight, accumulate=True)
    torch.testing.assert_close(rebuilt, routed, rtol=1e-4, atol=1e-5)
