"""InternViT and Step's tower: learned factors for each channel on what attention and MLP add."""

from nnatlas.families.towers._shapes import VIT, WITH_CLASS

_WEIGHED = VIT.but(
    name="weighed",
    attention_output="self_attn > out * block.lambda_1",
    mlp_output="mlp > out * block.lambda_2",
)

TOWERS = (
    _WEIGHED.but(name="internvit", covers="internvl_vision qianfan_ocr_vision", axes=WITH_CLASS, norm="layernorm"),
    _WEIGHED.but(
        name="step",
        covers="step3p5_vision",
        pre_norm="pre_layernorm",
        unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
        unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
    ),
)
