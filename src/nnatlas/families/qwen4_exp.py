"""Qwen 4 experimental: parallel residual streams, gated delta rule blocks, and gated attention over picked keys."""

from nnatlas.families._mixers import CARRIED, DELTA, DELTA_NOTES, NO_ATTENTION
from nnatlas.families._shapes import INDEXED, LLAMA, absent, kind
from nnatlas.families._streams import HYPER, HYPER_NOTES

_MIXED = "each stream is normed by itself inside the hyper-connection, which then weighs them into what the sublayer reads"
_SIDE_BY_SIDE = ": batch seq (streams hidden_size) as batch seq streams hidden_size"

FAMILY = LLAMA.but(
    **HYPER
    | dict(
        layer_input=f"block > in {_SIDE_BY_SIDE}",
        layer_mid=f"block.mlp_hyper_connection > in {_SIDE_BY_SIDE} shared",
        layer_output=f"block > out {_SIDE_BY_SIDE}",
        readout="side_by_side | norm | lm_head",
        passes="block.attn_hyper_connection block.mlp_hyper_connection base.hyper_connection_mixer block.ple",
    ),
    covers="qwen4_exp qwen4_exp_text",
    attention_norm=absent(_MIXED),
    mlp_norm=absent(_MIXED),
    attention_norm_output="block.attn_hyper_connection > out[0]",
    mlp_norm_output="block.mlp_hyper_connection > out[0]",
    norm="base.hyper_connection_mixer",
    sizes={"streams": "config.hc_count"},
    attention_gate="q_proj > out : batch seq (num_heads 2 head_dim) -> 1 as batch seq num_heads head_dim",
    indexer_choice="self_attn.indexer > out as batch one query key",
    kinds=(
        kind(
            "recurrent", "has linear_attn", self_attn=absent(NO_ATTENTION), linear_attn={"path": "linear_attn", **DELTA}
        ),
        kind(
            "gated shared expert",
            "has mlp.shared_expert_gate",
            shared_expert_output="beyond(routed_output, mlp_output)",
        ),
    ),
    breaks=CARRIED | INDEXED,
    notes=DELTA_NOTES
    | HYPER_NOTES
    | {
        "final_norm_output": "the streams, each normed and weighed, as the one vector that the head reads",
        "indexer_choice": "True where a query may attend to a key",
        "self_attn.attention_gate": "before its sigmoid; the second half of each head's query projection",
    },
    tiny={
        "*.indexer_n_heads": 2,
        "*.indexer_kv_heads": 1,
        "*.indexer_head_dim": 24,
        "*.indexer_budget": 8,
        "*.indexer_compress_ratio": 4,
    },
)
