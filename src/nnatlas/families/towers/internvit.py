"""InternViT: a class token, and learned factors for each channel on what attention and MLP add."""

from nnatlas.families.towers._shapes import VIT, WITH_CLASS

_FACTORS = {
    "attention_output": "self_attn > out * block.lambda_1",
    "mlp_output": "mlp > out * block.lambda_2",
}

TOWERS = (
    VIT.but(name="internvit", covers="internvl_vision qianfan_ocr_vision", axes=WITH_CLASS, norm="layernorm", **_FACTORS),
    VIT.but(
        name="step",
        covers="step3p5_vision",
        pre_norm="pre_layernorm",
        unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
        unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
        **_FACTORS,
    ),
    VIT.but(
        name="radio",
        covers="radio",
        axes=WITH_CLASS,
        attention_output="self_attn > out * block.layer_scale1.lambda1",
        mlp_output="mlp > out * block.layer_scale2.lambda1",
    ),
)
