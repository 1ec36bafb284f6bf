"""Rotary positions: interleaved pairs, two tables (one per attention kind), always in float32.

Column pair (2j, 2j+1) of position p turns by p * theta_j, theta_j = base ** (-2j / width)  (RoFormer,
arXiv:2104.09864): taken as a complex number, it is multiplied once.  Under YaRN (arXiv:2309.00071) the frequencies are
transformers' own; its attention factor is not folded into the tables but squared into the softmax scale, because a
global block rotates only part of each query and the factor is meant for all of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from nnatlas.apex.configuration import Apex1Config


class Apex1RotaryCache(nn.Module):
    """Turns for the positions of one call; the model keeps one cache for each rotated width.

    Nothing is tabulated in advance, so no position is out of range.
    """

    inv_freq: torch.Tensor

    def __init__(self, config: Apex1Config, width: int) -> None:
        super().__init__()
        self.config, self.width = config, width
        self.register_buffer("inv_freq", self.exact_frequencies(), persistent=False)

    def exact_frequencies(self) -> torch.Tensor:
        """[width / 2] angles per position, float32."""
        return rotary_frequencies(self.config, self.width)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Apex1RotaryCache:
        """Moving the model moves the frequencies; casting it to half precision does not round them."""
        super()._apply(fn, recurse)
        if self.inv_freq.dtype != torch.float32:
            self.inv_freq = self.exact_frequencies().to(self.inv_freq.device)
        return self

    @torch.no_grad()
    def forward(self, position_ids: torch.Tensor) -> torch.Tensor:
        """[batch, seq] positions -> cos + i sin of their angles, [batch, 1, seq, width / 2], complex64."""
        angles = (position_ids[..., None].float() * self.inv_freq.to(position_ids.device)).unsqueeze(1)
        return torch.complex(angles.cos(), angles.sin())


def apply_rotary(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn each adjacent pair of x [batch, heads, seq, width] by its angle, in float32; x's dtype comes back."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def rotary_frequencies(config: Apex1Config, width: int) -> torch.Tensor:
    """The rotary frequencies that the config asks for at this width, [width / 2] in float32."""
    rope = config.rope_parameters or {}
    if rope["rope_type"] == "default" or config.legacy_yarn:
        plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
        return legacy_step(plain, rope.get("factor", 1.0))
    at_width = copy.copy(config)
    at_width.head_dim = width
    frequencies, _ = ROPE_INIT_FUNCTIONS[rope["rope_type"]](at_width, None)
    return frequencies.float()


def attention_factor(config: Apex1Config) -> float:
    """What YaRN multiplies queries and keys with, 0.1 ln(factor) + 1; 1 without scaling and in the public code."""
    rope = config.rope_parameters or {}
    if rope["rope_type"] == "default" or config.legacy_yarn:
        return 1.0
    return float(ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, None)[1])


def legacy_step(theta: torch.Tensor, factor: float) -> torch.Tensor:
    """The public code's: untouched below a wavelength of 32 tokens, divided above `factor`, a bend between."""
    if factor <= 1:
        return theta
    wavelength = 2 * math.pi / theta
    scaled = torch.where(wavelength > factor, theta / factor, theta / wavelength)
    return torch.where(wavelength < 32, theta, scaled)
