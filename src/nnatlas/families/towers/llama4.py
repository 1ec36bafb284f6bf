"""Llama 4's and Llama 3.2's towers: tiles with a class token, a norm on either side of the blocks."""

from nnatlas.families.towers._shapes import VIT

TOWERS = (
    VIT.but(
        name="llama4",
        covers="llama4_vision_model",
        axes={"batch": "tiles", "seq": "patches_and_class"},
        layers="model.layers",
        unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
        unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
        patch_embed="patch_embedding",
        patch_embeddings="patch_embed > out as tiles patches hidden_size",
    ),
    VIT.but(
        name="mllama",
        covers="mllama_vision_model",
        axes={"batch": "images", "seq": "tiles_and_patches"},
        layers="transformer.layers",
        patch_embed="patch_embedding",
        patch_embeddings="patch_embed > out : tiles hidden_size rows columns as tiles rows columns hidden_size",
        notes={
            "layer_output": "tile after tile, each with its class token first and filled up to a multiple of eight rows",
            "tower_output": "of the blocks named here, normed; eight more blocks, `global_transformer`, come after them",
        },
    ),
)
