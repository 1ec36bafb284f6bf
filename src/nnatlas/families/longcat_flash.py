"""LongCat Flash: two attentions and two dense MLPs a block, and a mixture that reads after the first attention and adds at the end."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA, kind

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    identity="layer_input + self_attn.attention_output + block.mlps.0 > out"
    " + block.self_attn.1 > out[0] + block.mlps.1 > out + mlp_output = layer_output",
    self_attn="self_attn.0",
    unrotated_queries="self_attn.q_b_proj > out : batch seq (num_heads qk_head_dim) * self_attn.mla_scale_q_lora",
    attention_norm="input_layernorm.0",
    mlp_norm="post_attention_layernorm.0",
    mlp_input="mlp > in copied",
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            router_logits="router ~ linear[0] > out : (batch seq) router_classes as batch seq router_classes",
        ),
    ),
    sizes={"router_classes": "mlp.router.n_routed_experts", "num_experts": "mlp.experts.num_routed_experts"},
    passes="block.self_attn.1 block.input_layernorm.1 block.post_attention_layernorm.1 block.mlps",
    breaks={
        "shape expert_neurons": "some tokens go to experts without neurons, which hand them on as they are",
        "chain expert_neurons": "some tokens go to experts without neurons, which hand them on as they are",
    },
    notes={
        "layer_mid": "the stream after the first attention, before the first dense MLP",
        "mlp_norm_output": "read by the first dense MLP and by the mixture",
        "attention_output": "the first attention's; the second reads the stream after the first dense MLP",
        "mlp_output": "the mixture's, which is added at the end of the block; the dense MLPs are mlps[0] and mlps[1]",
        "router_logits": "the last classes stand for experts that hand a token on as it is",
    },
)
