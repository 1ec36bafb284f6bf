"""Keys as latent attention makes them, before its rotary: no tensor of the forward holds them, so they are joined here."""

from __future__ import annotations

import torch
from torch import Tensor

from nnatlas.bind.points import Computed
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run


@derived()
def latent_keys(run: Run, point: Computed, shared: Tensor, expanded: Tensor) -> Tensor:
    """Keys before the rotary, `[batch, num_kv_heads, seq, qk_head_dim]` (DeepSeek-AI 2024, "DeepSeek-V2", eq. 11 to 16).

    `expanded` is what every head makes of the latent, its part of the key and then its value; `shared` ends with the rotary
    part that all heads have in common.  A cached step expands all tokens so far, of which the last are its own.
    """
    sizes, seq = point.sizes, shared.shape[-2]
    heads = expanded.reshape(len(expanded), expanded.shape[-2], sizes["num_kv_heads"], -1)[:, -seq:].transpose(1, 2)
    own = heads[..., : heads.shape[-1] - sizes["head_dim"]]
    rotary = sizes["qk_head_dim"] - own.shape[-1]  # 0 where nothing is rotated
    common = shared.reshape(len(shared), 1, seq, -1)[..., shared.shape[-1] - rotary :]
    return torch.cat((own, common.expand(-1, own.shape[1], -1, -1)), -1)
