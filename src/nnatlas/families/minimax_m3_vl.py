"""MiniMax M3 behind an image tower."""

from nnatlas.families.minimax_m3_vl_text import FAMILY as MINIMAX_M3

FAMILY = MINIMAX_M3.twin(
    tiny={f"text_config.{field}": value for field, value in MINIMAX_M3.tiny.items()} | {"merged_hidden_size": 256}
)
