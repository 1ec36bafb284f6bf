"""SAM's tower as OCR models use it: rows and columns of patches, attention within windows, relative positions."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import VIT

_WRITTEN_OUT = "the attention is written out, within windows and with relative positions: see attention_scores"

TOWERS = (
    VIT.but(
        name="sam",
        covers="got_ocr2_vision pp_chart2table_vision",
        axes={"batch": "images", "seq": "rows columns"},
        norm=absent("a neck of convolutions follows the last block"),
        patch_embed="patch_embed.projection",
        patch_embeddings="patch_embed > out : images hidden_size rows columns as images rows columns hidden_size",
        attention_output="beyond(block > in, mlp_norm > in)",
        attention_scores="self_attn ~ softmax[0] > in as windows_and_heads query key",
        attention_probabilities="self_attn ~ dropout[0] > out as windows_and_heads query key",
        attention_queries=absent(_WRITTEN_OUT),
        attention_keys=absent(_WRITTEN_OUT),
        attention_values=absent(_WRITTEN_OUT),
        unrotated_queries=absent(_WRITTEN_OUT),
        unrotated_keys=absent(_WRITTEN_OUT),
        attention_head_outputs=absent(_WRITTEN_OUT),
        attention_premix="o_proj > in as windows rows columns hidden_size",
        attention_head_contributions=absent(_WRITTEN_OUT),
        notes={"attention_output": "windows put together again; what the module itself returns is window by window"},
    ),
)
