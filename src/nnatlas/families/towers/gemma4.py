"""Gemma 4's tower: sandwich norms, normed queries, keys and values, and no norm at its end; and its sibling without a tower."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import VIT

_NO_BLOCKS = "encoder-free: the patches are embedded, given their positions, and projected"

TOWERS = (
    VIT.but(
        name="gemma4",
        covers="gemma4_vision",
        patch_embed="patch_embedder.input_proj",
        patch_embeddings="patch_embed > out as images patches hidden_size",
        attention_norm="input_layernorm",
        mlp_norm="pre_feedforward_layernorm",
        attention_post_norm="post_attention_layernorm",
        mlp_post_norm="post_feedforward_layernorm",
        attention_output="attention_post_norm > out",
        mlp_output="mlp_post_norm > out",
        attention_head_contributions=absent("the output projection may clip what it reads and writes"),
        unrotated_queries="q_norm > out : batch seq num_heads qk_head_dim",
        unrotated_keys="k_norm > out : batch seq num_kv_heads qk_head_dim",
        notes={
            "tower_output": "before patches are pooled and scaled; rows of filling are still among them",
            "patch_embeddings": "rows of filling are embedded too",
        },
    ),
    VIT.but(
        name="encoder_free",
        covers="gemma4_unified_vision",
        layers=absent(_NO_BLOCKS),
        patch_embed="patch_dense",
        norm="pos_norm",
        patch_embeddings="patch_embed > out as images patches hidden_size",
        tower_output="norm > out as images patches hidden_size",
    ),
    VIT.but(
        name="linear_patches",
        covers="fuyu",
        layers=absent(_NO_BLOCKS),
        patch_embed=absent("the tower is the patch embedding itself"),
        norm=absent(_NO_BLOCKS),
        patch_embeddings="block > out as images patches hidden_size",
        tower_output="same as patch_embeddings",
    ),
)
