"""The four sizes that the APEX-1 document names, in its own section and field names.

Their parameter counts are far above the document's round figures (small is 523 million, not 100); `count_parameters`
says so, and the tests pin all four.
"""

from __future__ import annotations

from typing import Any

_MODEL = ("d_model n_layers n_heads_q n_heads_kv d_head d_head_rope d_kv_compressed d_q_compressed d_ffn vocab_size"
          " max_seq_len rope_base rope_scaling").split()  # fmt: skip


def _sections(model: tuple, window: int, experts: tuple[int, int, int], gate_width: int) -> dict[str, dict[str, Any]]:
    n_experts, n_active, n_shared = experts
    return {
        "model": dict(zip(_MODEL, model, strict=True)),
        "attention": {"global_layer_freq": 6, "local_window": window},
        "moe": {"enabled": True, "n_experts": n_experts, "n_active": n_active, "n_shared": n_shared,
                "moe_layer_freq": 2, "balancer_alpha": 1e-3},
        "skip_gate": {"enabled": True, "hidden_dim": gate_width, "threshold": 0.15},
        "multi_token_head": {"enabled": True, "n_predict": 4, "lambda_spec": 0.1},
    }  # fmt: skip


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": _sections((64, 6, 4, 2, 16, 8, 16, 24, 128, 1000, 256, 1e4, 1.0), 64, (4, 2, 1), 16),
    "small": _sections((512, 12, 8, 2, 64, 32, 64, 96, 1376, 151643, 8192, 1e4, 1.0), 512, (8, 2, 1), 64),
    "medium": _sections((2048, 36, 16, 4, 128, 64, 256, 384, 5504, 151643, 65536, 5e5, 4.0), 2048, (64, 4, 2), 128),
    "large": _sections((7168, 72, 128, 8, 128, 64, 512, 768, 18432, 151643, 131072, 1e6, 8.0), 8192, (256, 8, 4), 256),
}
