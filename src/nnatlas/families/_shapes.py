"""The shapes that family rows start from: Llama's block and the few others that many families share.

A cell with alternatives takes the first whose modules the live model has, so that one shape serves a type with and without
query norms, dense and sparse, alone or inside a wrapper.
"""

from __future__ import annotations

from typing import Any

from nnatlas.families._row import Family, _checked, kind
from nnatlas.places import absent

NO_NORM = "no module plays this role in this family"
PARALLEL = "a parallel block: attention and MLP read the same stream, so there is none between them"
POST_NORM_ATTENTION = "norms come after the sublayers here: what the attention reads is layer_input as it is"
POST_NORM_MLP = "norms come after the sublayers here: what the MLP reads is layer_mid as it is"
NORMED_ATTENTION = "the attention reads the stream as it enters the block; the norm comes after the sum"
NORMED_MLP = "the MLP reads the normed stream, which is layer_mid; the norm comes after the sum"
DENSE = "a dense MLP: it has no router and no experts"
NO_LATENT = "keys and values are projected directly, not expanded from a latent"
NO_GATE = "the heads' outputs are not gated"
NO_INDEXER = "no sparse indexer: every query may attend to the whole of its mask"
NO_MIXER = "this block mixes tokens by attention: see self_attn"
SHARED_KEYS = "this block takes the keys and values of an earlier one"
NO_SHARED = "this mixture has no shared experts"
IN_EXPERTS = "a mixture of experts: each expert has its own neurons, see expert_neurons(e)"
NO_ACT_MODULE = "the activation is a plain function call inside the MLP, not a module"
TWO_PIECES = "every key is joined from a part expanded from the latent and a rotary part that all heads share"

_HEADS = "batch seq (num_heads qk_head_dim)"
_KV_HEADS = "batch seq (num_kv_heads qk_head_dim)"

HEADS_FIRST: dict[str, Any] = dict(
    unrotated_queries=("q_norm > out", f"q_proj > out : {_HEADS}"),
    unrotated_keys=("k_norm > out", f"k_proj > out : {_KV_HEADS}"),
)
"""Queries and keys that are split into heads, heads before positions, before they are normed."""
ALL_HEADS: dict[str, Any] = dict(
    unrotated_queries=(f"q_norm > out : {_HEADS}", f"q_proj > out : {_HEADS}"),
    unrotated_keys=(f"k_norm > out : {_KV_HEADS}", f"k_proj > out : {_KV_HEADS}"),
)
"""Queries and keys that are normed across all heads at once, before they are split."""
AS_CALLED: dict[str, Any] = dict(
    unrotated_queries="self_attn calls apply_rotary_pos_emb > in.q",
    unrotated_keys="self_attn calls apply_rotary_pos_emb > in.k",
)
"""Queries and keys that are no module's output just before the rotary: what the rotary is called with."""
INDEXED = {
    "batch": "the indexer sees padding and cached keys otherwise than a whole prompt, in transformers itself",
    "causal attention_latent": "an edit reaches only the queries for which the indexer picked that position",
    "causal attention_keys": "an edit reaches only the queries for which the indexer picked that position",
    "causal attention_values": "an edit reaches only the queries for which the indexer picked that position",
}
"""What the families with a sparse indexer break."""

LATENT_KEYS: dict[str, Any] = dict(
    unrotated_keys=(
        "latent_keys(self_attn.k_rope_only_layernorm > out, self_attn.kv_b_proj > out)",
        "latent_keys(self_attn.kv_a_proj_with_mqa > out, self_attn.kv_b_proj > out)",
        absent(SHARED_KEYS),
    ),
)
"""Keys joined from what each head expands from the latent and a rotary part that all heads share."""
PICKED: dict[str, Any] = dict(
    indexer_choice=(
        "self_attn.indexer > out as batch query chosen",
        absent("this block attends to what an earlier block's indexer picked"),
    ),
)
"""Keys that a sparse indexer picks, in some blocks for the next ones too."""
NO_ROTARY: dict[str, Any] = dict(
    unrotated_queries="same as attention_queries",
    unrotated_keys="same as attention_keys",
)
"""Positions come in elsewhere: there is no rotary."""
GATED_HEADS: dict[str, Any] = dict(
    attention_gate=(
        "self_attn.gate_proj > out : batch seq (num_heads head_dim) through sigmoid as batch seq num_heads head_dim"
    )
)
"""Every dimension of the heads' outputs is gated by the sigmoid of a projection of what the attention read."""
SINK_GATE: dict[str, Any] = dict(
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
    attention_gate="self_attn ~ sigmoid[0] > out as batch num_heads seq",
)
"""A learned sink per head that takes its share after the mixing, as a gate, which is computed before the softmax."""
WRITTEN_OUT: dict[str, Any] = dict(
    attention_queries="self_attn ~ matmul[0] > in[0]",
    attention_keys="self_attn ~ matmul[0] > in[1] : batch num_kv_heads qk_head_dim seq",
    attention_values="self_attn ~ matmul[1] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
)
"""An attention that calls no interface: two matrix products with a softmax and a dropout between them."""
FAIRSEQ: dict[str, Any] = dict(
    attention_norm="self_attn_layer_norm",
    mlp_norm="final_layer_norm",
    o_proj="out_proj",
    up_proj="fc1",
    down_proj="fc2",
)
"""A block under fairseq's names."""
MEGATRON: dict[str, Any] = dict(
    base="transformer",
    layers="base.h",
    embed_tokens="base.word_embeddings",
    norm="base.ln_f",
    self_attn="self_attention",
    o_proj="dense",
    up_proj="dense_h_to_4h",
    down_proj="dense_4h_to_h",
)
"""The stack and its projections under Megatron's names."""
GPT2_STACK: dict[str, Any] = dict(
    base="transformer",
    layers="base.h",
    embed_tokens="base.wte",
    norm="base.ln_f",
    self_attn="attn",
    attention_norm="ln_1",
)
"""The stack under GPT-2's names."""
NORMED_SUMS: dict[str, Any] = dict(
    identity=absent("the stream itself is normed after every sum"),
    attention_norm=absent(NORMED_ATTENTION),
    mlp_norm=absent(NORMED_MLP),
    attention_norm_output=absent(NORMED_ATTENTION),
    mlp_norm_output=absent(NORMED_MLP),
    norm=absent("the last block's stream is normed already: no norm stands before the head"),
    layer_mid="mlp > in shared",
    mlp_input="mlp > in copied",
)
"""Every sum of the stream and a sublayer is normed and becomes the stream; nothing is normed before the head."""
PASS_BY_PASS = {
    "layer_input": "of the block's first pass; reading it again in the same run waits for the next",
    "layer_output": "of the block's first pass; reading it again in the same run waits for the next",
}
"""Blocks that run several times in a forward."""
GRANITE: dict[str, Any] = dict(
    attention_output="self_attn > out * residual_multiplier",
    mlp_output="mlp > out * residual_multiplier",
)
"""What each sublayer adds is weighed by a constant."""
BLOCK_ADDS = {
    "chain mlp.mlp_output": "the block adds the mixture and the shared MLP up on its own",
    "chain mlp.routed_output": "the shared MLP stands beside the mixture, in the block",
}
"""What the families break whose block itself adds what its mixture and its shared MLP write."""
GLM4_NORMS: dict[str, Any] = dict(
    mlp_norm="post_attention_layernorm",
    attention_post_norm="post_self_attn_layernorm",
    mlp_post_norm="post_mlp_layernorm",
)
"""Sandwich norms under GLM's names."""
GEMMA4: dict[str, Any] = dict(
    readout="norm | lm_head | maybe cap final_logit_softcapping",
    identity="layer_input + attention_output + mlp_output = layer_output / block.layer_scalar",
    k_norm=("k_norm", absent(SHARED_KEYS)),
    unrotated_keys=("k_norm > out : batch seq num_kv_heads qk_head_dim", absent(SHARED_KEYS)),
)
"""A factor on the whole stream at the end of each block; keys and values that later blocks take from earlier ones."""
GEMMA4_SPARSE = kind(
    "sparse",
    "has experts",
    router="block.router",
    experts="block.experts",
    routed_output="block.post_feedforward_layernorm_2 > out",
    shared_expert_output="block.post_feedforward_layernorm_1 > out",
    mlp_activation="act_fn > out as batch seq dense_size",
    mlp_neurons="down_proj > in as batch seq dense_size",
)
"""A mixture beside the dense MLP, whose router and experts hang on the block."""
GEMMA4_BREAKS = {
    **dict.fromkeys(
        ("chain mlp.mlp_output", "chain mlp.routed_output", "chain mlp.expert_neurons"),
        "in a mixture the block norms the dense and the routed part each, and then their sum",
    ),
    "chain mlp.expert_weights": "each expert's weight is scaled by a learned number of its own",
}
GEMMA4_PER_LAYER = (
    "layer_input + attention_output + mlp_output + post_per_layer_input_norm > out = layer_output / block.layer_scalar"
)

SPARSE = kind(
    "sparse",
    "has mlp.experts",
    router_logits="router ~ linear[0] > out : (batch seq) num_experts",
    expert_weights="router > out[1] : (batch seq) top_k",
    expert_indices="router > out[2] : (batch seq) top_k",
    mlp_activation=absent(IN_EXPERTS),
    mlp_neurons=absent(IN_EXPERTS),
    expert_neurons="expert_neurons(router)",
    routed_output=("experts > out : (batch seq) hidden_size", absent("the experts' sum is not a module's output")),
    shared_expert_output=("shared_experts > out : (batch seq) hidden_size", absent(NO_SHARED)),
)
"""A mixture.  The router's logits are taken where it computes them, before it chooses: an edit changes the choice."""

SCALED_EXPERTS = kind(
    "sparse", "has mlp.experts", routed_output="experts > out : (batch seq) hidden_size * mlp.routed_scaling_factor"
)
"""A mixture that weighs the sum of its routed experts by a constant."""

TOWERS = tuple(
    f"root.{part}"
    for part in (
        *(
            "*vision*",
            "*visual*",
            "*image*",
            "*video*",
            "*audio*",
            "*vqmodel*",
            "*projector*",
            "*connector*",
            "*aligner*",
        ),
        *(
            "*resampler*",
            "language_projection",
            "qformer",
            "query_tokens",
            "model.view_separator",
            "model.generation_*",
        ),
    )
)
"""What stands beside the text model in wrappers: towers, projectors, generators of images."""

SMALL_TOWER: dict[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
"""The config of a tower that stands in for one of timm, which a tiny model cannot build."""

LLAMA = Family(
    name="llama",
    shape="",
    passes=TOWERS,
    kinds=(SPARSE,),
    cells=_checked(
        "_shapes",
        dict(
            base=("model.language_model", "model.text_model", "language_model.model", "model"),
            layers="base.layers",
            embed_tokens="base.embed_tokens",
            norm="base.norm",
            lm_head=("lm_head", "language_model.lm_head"),
            self_attn="self_attn",
            mlp="mlp",
            linear_attn=absent(NO_MIXER),
            attention_norm="input_layernorm",
            mlp_norm="post_attention_layernorm",
            attention_post_norm=absent("nothing norms what the attention writes"),
            mlp_post_norm=absent("nothing norms what the MLP writes"),
            q_proj=("q_proj", absent("queries, keys and values are not three projections here")),
            k_proj=("k_proj", absent("queries, keys and values are not three projections here")),
            v_proj=("v_proj", absent("queries, keys and values are not three projections here")),
            o_proj="o_proj",
            q_norm=("q_norm", "q_layernorm", absent("no query norm")),
            k_norm=("k_norm", "k_layernorm", absent("no key norm")),
            up_proj=("up_proj", absent("no separate up projection")),
            down_proj=("down_proj", absent(NO_NORM)),
            act_fn=("act_fn", "act", "activation_fn", absent(NO_ACT_MODULE)),
            router=("gate", "router", absent(DENSE)),
            experts=("experts", absent(DENSE)),
            shared_experts=("shared_experts", "shared_expert", "shared_mlp", absent(NO_SHARED)),
            input_ids="root > in.input_ids copied",
            attention_mask="root > in.attention_mask copied",
            input_size="input_size(input_ids)",
            token_embeddings="embed_tokens > out",
            final_norm_output="norm > out",
            lm_head_output="lm_head > out",
            logits="root > out.logits",
            next_token_probs="next_token_probs(logits)",
            layer_input="block > in",
            attention_norm_output="attention_norm > out",
            layer_mid="mlp_norm > in shared",
            mlp_norm_output="mlp_norm > out",
            mlp_input="mlp > in",
            layer_output="block > out",
            unrotated_queries=(
                "q_norm > out : batch seq num_heads qk_head_dim",
                f"q_proj > out : {_HEADS}",
                f"self_attn.q_b_proj > out : {_HEADS}",
                absent("the queries are not one module's output before the rotary"),
            ),
            unrotated_keys=(
                "k_norm > out : batch seq num_kv_heads qk_head_dim",
                f"k_proj > out : {_KV_HEADS}",
                absent(TWO_PIECES),
            ),
            attention_latent=("self_attn.kv_a_layernorm > out as batch seq latent", absent(NO_LATENT)),
            attention_queries="attention > query",
            attention_keys="attention > key",
            attention_values="attention > value",
            indexer_choice=absent(NO_INDEXER),
            attention_scores="attention > scores",
            attention_probabilities="attention > probabilities",
            attention_head_outputs="attention > out",
            attention_gate=absent(NO_GATE),
            attention_premix="o_proj > in : batch seq (num_heads head_dim)",
            attention_head_contributions="head_contributions(attention_premix)",
            attention_output="self_attn > out",
            router_logits=absent(DENSE),
            expert_indices=absent(DENSE),
            expert_weights=absent(DENSE),
            mlp_activation=("act_fn > out", absent(NO_ACT_MODULE)),
            mlp_neurons="down_proj > in",
            expert_neurons=absent(DENSE),
            routed_output=absent(DENSE),
            shared_expert_output=absent(DENSE),
            mlp_output="mlp > out",
        ),
    ),
)

NORMS_AFTER: dict[str, Any] = dict(
    attention_norm=absent(POST_NORM_ATTENTION),
    mlp_norm=absent(POST_NORM_MLP),
    attention_post_norm="input_layernorm",
    mlp_post_norm="post_attention_layernorm",
    attention_norm_output=absent(POST_NORM_ATTENTION),
    mlp_norm_output=absent(POST_NORM_MLP),
    layer_mid="mlp > in shared",
    mlp_input="mlp > in copied",
    attention_output="attention_post_norm > out",
    mlp_output="mlp_post_norm > out",
)
"""Llama's two norms, moved by the config behind what they feed in Llama."""

USUAL = LLAMA
"""The shape that most rows start from, for code that compares with it."""

SANDWICH = LLAMA.but(
    name="sandwich",
    mlp_norm="pre_feedforward_layernorm",
    attention_post_norm="post_attention_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
    attention_output="attention_post_norm > out",
    mlp_output="mlp_post_norm > out",
)

POST_NORM = LLAMA.but(
    name="post_norm",
    **{
        **NORMS_AFTER,
        "attention_post_norm": "post_attention_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    },
)

PARALLEL_ONE_NORM = LLAMA.but(
    name="parallel_one_norm",
    mlp_norm="input_layernorm",
    layer_mid=absent(PARALLEL),
    notes={"mlp_norm_output": "the block's one norm feeds attention and MLP alike"},
)

GPT2 = LLAMA.but(
    name="gpt2",
    **GPT2_STACK,
    **NO_ROTARY,
    mlp_norm="ln_2",
    o_proj="c_proj",
    up_proj="c_fc",
    down_proj="c_proj",
)
