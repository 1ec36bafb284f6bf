"""The recurrent mixers that many families share: where each role of a gated delta rule, a state space model or a short
convolution is found.  Each is a mapping for a row's `linear_attn`, to which the family adds the path of its own module.

Values are read where the recurrence is called, so that they are the same whichever kernel computes it.
"""

from __future__ import annotations

from typing import Any

from nnatlas.families._row import Family
from nnatlas.families._shapes import LLAMA, NO_ROTARY, absent, kind

NO_ATTENTION = "this block mixes tokens by a recurrence, without attention: see linear_attn"
NO_ATTENTION_AT_ALL = "this family mixes tokens by a recurrence alone: see linear_attn"
NO_MLP = "this block has no MLP: its one mixer adds to the stream and that is all"
NO_STEPS = "its recurrence has no step size: decays and betas are computed directly"

CARRIED = {
    "causal linear_attn.state_output": "it is what the next cached step starts from; this call's logits no longer depend on it",
    "gradient linear_attn.state_output": "it is what the next cached step starts from; this call's logits no longer depend on it",
    "gradient linear_attn.state_input": "before a prompt it is zeros that depend on no parameter; requires_grad_() on it works",
}
"""Laws that the state itself cannot obey within one call."""
PADDED = {"batch padding": "a bias in the input projection fills the padding, which the short convolution then sees"}
CLAMPED = {
    "batch cache": "a prompt's step sizes are kept above the config's least step size, those of single steps are not"
}
MASKLESS = {
    "causal attention_mask": "the model takes no notice of a mask",
    "batch padding": "the model takes no notice of a mask, so padding is read like any token",
}
IN_PLACE = {"gradient": "the model writes its state in place, so a backward pass needs use_cache=False"}
FROM_NOTHING = {
    f"{law} linear_attn.state_input": "the scan over a prompt takes no state: it starts from nothing"
    for law in ("pure", "causal", "gradient")
}

_RULE = "linear_attn calls torch_chunk_gated_delta_rule|torch_recurrent_gated_delta_rule"
_KIMI = "linear_attn calls chunk_kimi_delta_attention|recurrent_kimi_delta_attention"
_MATRIX = "batch num_heads key_head_dim value_head_dim"
_KEYS, _VALUES = "batch seq num_key_heads key_head_dim", "batch seq num_heads value_head_dim"


def _delta(rule: str, decays: str) -> dict[str, Any]:
    """The values of a gated delta rule whose forward calls `rule`, a Python function; `decays` are the axes of its decays.

    Queries and keys are `[batch, seq, num_key_heads, key_head_dim]`, values `[batch, seq, num_heads, value_head_dim]`, and the
    state is a matrix for each head, `[batch, num_heads, key_head_dim, value_head_dim]`.  The rule takes log-decays.
    """
    return dict(
        attention_queries=f"{rule} > in.query as {_KEYS}",
        attention_keys=f"{rule} > in.key as {_KEYS}",
        attention_values=f"{rule} > in.value as {_VALUES}",
        conv_output="linear_attn ~ split[0] > in[0] as batch seq conv_channels",
        time_steps=absent(NO_STEPS),
        decays=f"{rule} > in.g through exp as {decays}",
        betas=f"{rule} > in.beta as batch seq num_heads",
        state_input=f"{rule} > in.initial_state or zeros as {_MATRIX} copied",
        state_output=f"{rule} > out[1] as {_MATRIX}",
        states="delta_states(state_input, attention_keys, attention_values, decays, betas)"
        " as batch seq num_heads key_head_dim value_head_dim",
        attention_head_outputs=f"{rule} > out[0] as {_VALUES}",
        attention_gate=(
            f"linear_attn.norm > in.gate : (batch seq num_heads) value_head_dim as {_VALUES}",
            f"linear_attn.o_norm > in.gate : (batch seq num_heads) value_head_dim as {_VALUES}",
        ),
        attention_premix=(
            f"linear_attn.out_proj > in : batch seq (num_heads value_head_dim) as {_VALUES}",
            f"linear_attn.o_proj > in : batch seq (num_heads value_head_dim) as {_VALUES}",
        ),
        attention_output="linear_attn > out",
    )


DELTA = _delta(_RULE, "batch seq num_heads")
"""The gated delta rule: a matrix of keys by values for each head, corrected by what it does not yet predict."""

KIMI_DELTA = _delta(_KIMI, "batch seq num_heads key_head_dim") | dict(
    attention_gate=f"linear_attn.o_norm > in.gate as {_VALUES}",
)
"""Kimi's delta attention: the gated delta rule with a decay for every key dimension."""

DELTA_NOTES = {
    "linear_attn.attention_queries": "after the short convolution; the rule itself brings each to length 1 and scales it",
    "linear_attn.attention_keys": "after the short convolution; the rule itself brings each to length 1",
    "linear_attn.attention_values": "after the short convolution: what the state is to give back for the key",
    "linear_attn.conv_output": "queries, keys and values of all heads side by side, after the convolution and its SiLU",
    "linear_attn.decays": "the factor on the whole state of a head at each token, between 0 and 1",
    "linear_attn.betas": "the share of the difference between value and prediction that is written, a sigmoid",
    "linear_attn.state_input": "zeros before a prompt; assign a state to start from it",
    "linear_attn.state_output": "what the cache keeps; an edit reaches the next cached step, not this call's logits",
    "linear_attn.attention_gate": "before its SiLU; the normed head outputs are multiplied by it",
}

KIMI_NOTES = DELTA_NOTES | {
    "linear_attn.decays": "the factor on each key dimension of a head's state at each token, between 0 and 1",
    "linear_attn.attention_gate": "before its sigmoid; the normed head outputs are multiplied by it",
}
KIMI_KIND = kind(
    "recurrent",
    "has self_attn.forget_gate",
    self_attn=absent(NO_ATTENTION),
    linear_attn={"path": "self_attn", **KIMI_DELTA},
)
"""Blocks of Kimi's delta attention, under the same name as the attentions between them."""

_SCAN, _STEP = "mamba2_chunk_scan", "mamba2_selective_state_update"
_BOTH = f"linear_attn calls {_SCAN}|{_STEP}"
_PARTS = "linear_attn.in_proj > out : batch seq (channels | conv_channels | num_heads)"
_HEADS = "batch seq num_heads value_head_dim"
_GROUPS = "batch seq num_key_heads state_size"
_STATE = "batch num_heads value_head_dim state_size"

MAMBA2: dict[str, Any] = dict(
    attention_queries=f"{_BOTH} > in.C : batch seq? num_key_heads state_size as {_GROUPS}",
    attention_keys=f"{_BOTH} > in.B : batch seq? num_key_heads state_size as {_GROUPS}",
    attention_values=f"{_BOTH} > in.hidden_states : batch seq? num_heads value_head_dim as {_HEADS}",
    conv_output="linear_attn calls apply_mask_to_padding_states[1] > out as batch seq conv_channels",
    time_steps=f"{_PARTS} -> 2 as batch seq num_heads",
    decays="step_decays(betas) as batch seq num_heads",
    betas=f"step_sizes({_BOTH} > in.dt, attention_values) as batch seq num_heads",
    state_input=f"linear_attn calls {_SCAN} > in.initial_states or {_STEP} > in.state or zeros as {_STATE} copied shared",
    state_output=f"linear_attn calls {_SCAN} > out[1] or {_STEP} > after.state as {_STATE} copied shared",
    states="outer_states(state_input, attention_values, attention_keys, decays, betas)"
    " as batch seq num_heads value_head_dim state_size",
    attention_head_outputs=f"{_BOTH} > out[0] : batch seq? num_heads value_head_dim as {_HEADS}",
    attention_gate=f"{_PARTS} -> 0 as batch seq channels",
    attention_premix="linear_attn.out_proj > in as batch seq channels",
    attention_output="linear_attn > out",
)
"""Mamba-2: a matrix of values by state dimensions for each head, one decay a head."""

_SCAN, _STEP = "mamba_selective_scan", "mamba_selective_state_update"
_BOTH = f"linear_attn calls {_SCAN}|{_STEP}"
_STATE = "batch channels state_size"

MAMBA: dict[str, Any] = dict(
    attention_queries=f"{_BOTH} > in.C : batch state_size seq? as batch seq state_size",
    attention_keys=f"{_BOTH} > in.B : batch state_size seq? as batch seq state_size",
    attention_values=f"{_BOTH} > in.hidden_states : batch channels seq? as batch seq channels",
    conv_output="linear_attn calls apply_mask_to_padding_states[1] > out as batch seq conv_channels",
    time_steps=f"{_BOTH} > in.dt : batch channels seq? as batch seq channels",
    decays="step_decays(betas) as batch seq channels state_size",
    betas="step_sizes(time_steps) as batch seq channels",
    state_input=f"linear_attn calls {_SCAN} > nothing or {_STEP} > in.state or zeros as {_STATE} copied shared",
    state_output=f"linear_attn calls {_SCAN} > out[1] or {_STEP} > after.state as {_STATE} copied shared",
    states="outer_states(state_input, attention_values, attention_keys, decays, betas)"
    " as batch seq channels state_size",
    attention_head_outputs="scanned(state_input, attention_values, attention_queries, attention_keys, betas) as batch seq channels",
    attention_gate=f"{_BOTH} > in.z : batch channels seq? as batch seq channels",
    attention_premix="linear_attn.out_proj > in as batch seq channels",
    attention_output="linear_attn > out",
)
"""Mamba: a vector of state dimensions for each channel, every one with a decay of its own."""

MAMBA_NOTES = {
    "linear_attn.attention_queries": "C, shared by the channels (of a group of heads): what reads the state",
    "linear_attn.attention_keys": "B, shared by the channels (of a group of heads): where in the state a token is written",
    "linear_attn.attention_values": "x, after the short convolution and its SiLU: what is written",
    "linear_attn.conv_output": "after convolution and SiLU, padding zeroed; in Mamba-2 values, keys and queries side by side",
    "linear_attn.decays": "exp(A * step size), between 0 and 1",
    "linear_attn.betas": "the step size: softplus of time step and bias, the weight with which a token is written",
    "linear_attn.state_input": "zeros before a prompt",
    "linear_attn.state_output": "what the cache keeps; an edit reaches the next cached step, not this call's logits",
    "linear_attn.attention_gate": "z, before its SiLU",
    "linear_attn.attention_head_outputs": "what is read from the state, and D times the token's own value; before gate and norm",
}

SHORT_CONV: dict[str, Any] = dict(
    attention_queries=absent("a short convolution has no queries: it sees the latest positions, whatever they hold"),
    attention_keys=absent("a short convolution has no keys: a position is found by its distance alone"),
    attention_values="linear_attn.in_proj > out : batch seq (3 hidden_size) -> 2 as batch seq hidden_size",
    conv_output="linear_attn calls causal_conv1d_fn|causal_conv1d_update > out : batch hidden_size seq as batch seq hidden_size",
    time_steps=absent(NO_STEPS),
    decays=absent("a short convolution keeps its latest inputs whole and drops the rest"),
    betas="linear_attn.in_proj > out : batch seq (3 hidden_size) -> 0 as batch seq hidden_size",
    state_input="conv_state(linear_attn > in.cache) as batch hidden_size conv_width",
    state_output="conv_state(linear_attn > after.cache) as batch hidden_size conv_width",
    states="window_states(state_input, attention_values, betas) as batch seq hidden_size conv_width",
    attention_head_outputs="same as conv_output",
    attention_gate="linear_attn.in_proj > out : batch seq (3 hidden_size) -> 1 as batch seq hidden_size",
    attention_premix="linear_attn.out_proj > in as batch seq hidden_size",
    attention_output="linear_attn > out",
)
"""LFM's short convolution: gated inputs, a few positions of memory, a gate on what comes out."""

SHORT_CONV_NOTES = {
    "linear_attn.attention_values": "x, the third part of the input projection, before its gate",
    "linear_attn.betas": "B, the gate that x is multiplied by before the convolution; it may be of any size",
    "linear_attn.conv_output": "what the gate is applied to; for prompts shorter than the convolution, the padding in front too",
    "linear_attn.attention_gate": "C, the gate that the convolution's output is multiplied by",
    "linear_attn.state_input": "the latest gated inputs, oldest first, zeros before a prompt",
    "linear_attn.state_output": "the latest gated inputs after this call, oldest first",
}

SINGLE: Family = LLAMA.but(
    name="single",
    base="backbone",
    embed_tokens="base.embeddings",
    norm="base.norm_f",
    self_attn=absent(NO_ATTENTION_AT_ALL),
    attention_norm="norm",
    mlp=absent(NO_MLP),
    mlp_norm=absent(NO_MLP),
    layer_mid=absent(NO_MLP),
    mlp_norm_output=absent(NO_MLP),
    mlp_input=absent(NO_MLP),
    identity="layer_input + attention_output = layer_output",
)
"""Blocks of one norm and one mixer."""

_ASIDE = "the shared transformer's output is added to what this block's mixer reads, not to the stream: see .linear"

BESIDE: Family = SINGLE.but(
    name="beside",
    base="model",
    embed_tokens="base.embed_tokens",
    norm="base.final_layernorm",
    self_attn=absent(NO_ATTENTION),
    attention_norm="input_layernorm",
    identity="layer_input + linear_attn.attention_output = layer_output",
    **NO_ROTARY,
    kinds=(
        kind(
            "hybrid",
            "has mamba_decoder",
            linear_attn={"path": "mamba_decoder.mamba"},
            attention_norm="mamba_decoder.input_layernorm",
            self_attn=("shared_transf.self_attn", "shared_transformer.self_attn"),
            attention_output=absent(_ASIDE),
            attention_head_contributions=absent(_ASIDE),
            mlp=("shared_transf.feed_forward", "shared_transformer.feed_forward"),
            mlp_input="mlp > in",
            mlp_output=absent(_ASIDE),
            mlp_norm_output=absent("the shared MLP reads the shared attention's output, normed, not the stream"),
            layer_mid=absent(_ASIDE),
        ),
    ),
    passes="block.linear block.shared_transf*.input_layernorm block.shared_transf*.pre_ff_layernorm",
    breaks=CARRIED
    | PADDED
    | {
        "chain block.attention_norm_output": "in hybrid blocks it norms the stream and the shared transformer's output together",
        "chain block.mlp_input": "the shared MLP reads the shared attention's output, normed",
    },
    notes=MAMBA_NOTES
    | {
        "attention_norm_output": "in hybrid blocks the norm of the stream and the shared transformer's output together",
        "mlp_input": "the normed output of the shared attention",
    },
)
"""Blocks of one mixer; in some of them a shared transformer first adds to what the mixer reads."""
