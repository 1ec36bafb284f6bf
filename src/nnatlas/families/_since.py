"""Model types that came to transformers after the oldest release that nnatlas takes, and the release each needs.

Their rows stand beside the others'; where an older transformers is installed, nnatlas says what to install.
"""

from __future__ import annotations

from typing import Final

_TABLE = {
    "5.20.1": "beam",
    "5.21": "flint",
    "5.22": "mistral_large4",
    "5.23": "dots3_note dots3_note_text granite_docling internlm3 iquestcoder lfm3 lfm3_vl",
    "5.24": "apertus1p5 apertus1p5_text dory exaone hy_v4_vl inkling2_loop inkling2_loop_text lara_mini sarvam_mla"
    " sarvam_moe",
}
_REMADE = {  # there before, but not as their rows know them: keys repeated for all heads early on; other modules
    "5.23": "minicpm_ocr minicpmv4_6 minicpmv4_7 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp"
    " qwen4_exp_text",
    "5.24": "inkling2 inkling2_text",
}

REMADE: Final = {name: release for release, names in _REMADE.items() for name in names.split()}
SINCE: Final = {name: release for release, names in _TABLE.items() for name in names.split()} | REMADE
"""Model type -> the first release of transformers that has it as its row describes it."""
