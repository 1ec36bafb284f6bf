"""Model types that came to transformers after the oldest release that nnatlas takes, and the release each came with.

Their rows stand beside the others'; where an older transformers is installed, nnatlas says what to install.
"""

from __future__ import annotations

from typing import Final

_TABLE = {
    "5.20.1": "beam",
    "5.21": "flint minicpm_ocr",
    "5.22": "mistral_large4",
    "5.23": "dots3_note dots3_note_text granite_docling inkling2 inkling2_text internlm3 iquestcoder lfm3 lfm3_vl",
    "5.24": "apertus1p5 apertus1p5_text dory exaone hy_v4_vl inkling2_loop inkling2_loop_text lara_mini sarvam_mla"
    " sarvam_moe",
}

SINCE: Final = {name: release for release, names in _TABLE.items() for name in names.split()}
"""Model type -> the first release of transformers that has it."""
