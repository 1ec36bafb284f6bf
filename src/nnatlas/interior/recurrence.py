"""Recurrences written out token by token: the state after every token, and what a mixer keeps and writes at each.

Fused kernels and chunked formulas give only the last state; here the same recurrence runs one step a token, from the values
that a family's row names, edits included.  The last of these states is what the model itself ends with, which is a law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nnatlas.bind.points import Computed
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run
from nnatlas.errors import Unavailable

Step = Callable[..., Tensor]


def _scan(state: Tensor, step: Step, *sequences: Tensor) -> Tensor:
    """The states `[batch, seq, ...]` of a recurrence over sequences `[batch, seq, ...]`, in float32."""
    states, state = [], state.float()
    for inputs in zip(*(sequence.float().unbind(1) for sequence in sequences), strict=True):
        state = step(state, *inputs)
        states.append(state)
    return torch.stack(states, 1)


def _as_many_heads(few: Tensor, heads: int) -> Tensor:
    """Groups `[batch, seq, groups, width]` repeated for the heads that share them; anything else as it is."""
    return few if few.ndim < 4 or few.shape[2] == heads else few.repeat_interleave(heads // few.shape[2], 2)


def _spread(tensor: Tensor, like: Tensor) -> Tensor:
    """With as many axes as `like`, added at the end."""
    return tensor.reshape(*tensor.shape, *(1,) * (like.ndim - tensor.ndim))


@derived()
def delta_states(
    run: Run, point: Computed, state: Tensor, keys: Tensor, values: Tensor, decays: Tensor, betas: Tensor
) -> Tensor:
    """States of the gated delta rule `[batch, seq, num_heads, key_head_dim, value_head_dim]`.

    `S = a S; S += b k (v - S'k)'` with keys of length 1 (Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks", eq. 10);
    decays may be one for each head or one for each key dimension (Kimi Delta Attention).
    """
    keys = keys.float()
    keys = _as_many_heads(keys * torch.rsqrt((keys * keys).sum(-1, keepdim=True) + 1e-6), values.shape[2])

    def step(state: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
        state = state * _spread(decay, state)
        missing = value - torch.einsum("bhkv,bhk->bhv", state, key)
        return state + key[..., None] * (beta[..., None] * missing)[..., None, :]

    return _scan(state, step, keys, values, decays, betas)


@derived()
def outer_states(
    run: Run, point: Computed, state: Tensor, first: Tensor, second: Tensor, decays: Tensor, betas: Tensor | None = None
) -> Tensor:
    """States of `S = a S + b first second'`: state space models, linear attention with a decay (b is 1 where not given)."""
    heads = max(first.shape[2], second.shape[2])
    first, second = _as_many_heads(first, heads), _as_many_heads(second, heads)
    first = first if betas is None else first * _spread(betas, first)

    def step(state: Tensor, first: Tensor, second: Tensor, decay: Tensor) -> Tensor:
        return state * _spread(decay, state) + first[..., None] * second[..., None, :]

    return _scan(state, step, first, second, decays)


@derived()
def scanned(
    run: Run, point: Computed, state: Tensor, values: Tensor, queries: Tensor, keys: Tensor, betas: Tensor
) -> Tensor:
    """What a state space model reads from its state after every token, and passes by it: `S C + D x` (Gu and Dao 2023, eq. 2).

    A scan that applies its gate at once never holds it; here the recurrence runs token by token.
    """
    states = outer_states(run, point, state, values, keys, step_decays(run, point, betas), betas)
    read = torch.einsum("bs...n,bs...n->bs...", states, _as_many_heads(queries.float(), states.shape[2])[..., None, :])
    return (read + values.float() * _spread(point.host.module.D.float(), values[0, 0])).to(values.dtype)


@derived()
def memory_states(run: Run, point: Computed, state: Tensor, *sequences: Tensor) -> Tensor:
    """The mLSTM's matrix memory after every token: `outer_states` of sequences `[batch, num_heads, seq, ...]`."""
    return outer_states(run, point, state, *(sequence.transpose(1, 2) for sequence in sequences))


@derived()
def window_states(run: Run, point: Computed, state: Tensor, values: Tensor, betas: Tensor) -> Tensor:
    """What a short convolution remembers after each token, `[batch, seq, channels, conv_width]`: its latest inputs."""
    written = torch.cat([state, (betas * values).transpose(1, 2)], -1)
    return written.unfold(-1, state.shape[-1], 1)[:, :, 1:].permute(0, 2, 1, 3)


@derived()
def step_sizes(run: Run, point: Computed, time_steps: Tensor, values: Tensor | None = None) -> Tensor:
    """A state space model's step sizes, softplus of time step and bias: how strongly each token writes.

    The step of a single token comes spread over the head's width, the steps of a prompt are kept within the module's limits.
    """
    module = point.host.module
    spread = values is not None and time_steps.ndim == 3 and time_steps.shape == values[:, 0].shape
    time_steps = time_steps[:, None, :, 0] if spread else time_steps
    steps = F.softplus(time_steps.float() + _bias(module))
    limits = getattr(module, "time_step_limit", None)
    return steps if limits is None or spread else steps.clamp(*limits)


def _bias(module: Any) -> Tensor:
    """What is added to the time steps before the softplus, wherever the module keeps it."""
    found = next((getattr(module, name) for name in ("dt_bias", "dt_proj_bias") if hasattr(module, name)), None)
    bias: Tensor = module.dt_proj.bias if found is None else found
    return bias.float()


@derived()
def step_decays(run: Run, point: Computed, betas: Tensor) -> Tensor:
    """What each step of a state space model keeps: `exp(-exp(A_log) * step size)` (Gu and Dao 2023, "Mamba", eq. 4)."""
    rate = point.host.module.A_log.float().exp()
    return torch.exp(-rate * (betas if rate.ndim + 2 == betas.ndim else betas[..., None]))


@derived()
def steady_decays(run: Run, point: Computed, values: Tensor) -> Tensor:
    """Decays that depend on the head alone, `exp(-slope_rate)`, written out for every token."""
    kept = torch.exp(-point.host.module.slope_rate.float().flatten())
    return kept.expand(values.shape[0], values.shape[1], -1)


@derived()
def channel_decays(run: Run, point: Computed, values: Tensor) -> Tensor:
    """Decays that depend on the channel alone, `exp(-exp(time_decay))`, written out for every token."""
    return torch.exp(-point.host.module.time_decay.float().exp()).expand_as(values)


@derived()
def recurrent_state(run: Run, point: Computed, cache: Any) -> Tensor:
    """The recurrent state that a cache holds for this block, zeros before the first token."""
    return _cached(run, point, cache, lambda block: _first_state(cache.layers[block], "recurrent_states"))


@derived()
def conv_state(run: Run, point: Computed, cache: Any) -> Tensor:
    """The inputs that a cache holds for this block's convolution, zeros before the first token."""
    return _cached(run, point, cache, lambda block: _first_state(cache.layers[block], "conv_states"))


@derived()
def linear_cache(run: Run, point: Computed, cache: Any) -> Tensor:
    """The state that a cache of linear attention holds for this block, zeros before the first token."""
    return _cached(run, point, cache, lambda block: cache.get_linear_cache(block))


def _first_state(layer: Any, name: str) -> Tensor | None:
    """A block's first state; one that was never filled, or has been reset since, is none."""
    found: Tensor | None = getattr(layer, name)[0] if layer.has_previous_state[0] else None
    return found


def _cached(run: Run, point: Computed, cache: Any, state_of: Callable[[int], Tensor | None]) -> Tensor:
    if cache is None:
        raise Unavailable(f"{point.name}: the forward keeps no cache; pass use_cache=True")
    found = state_of(point.host.module.layer_idx)
    if isinstance(found, Tensor):
        return found.clone()
    weight = next(point.host.module.parameters())
    return weight.new_zeros(run.rows, *(point.sizes[axis] for axis in point.layout.axes[1:]), dtype=torch.float32)


@derived()
def unscaled_memory(run: Run, point: Computed, *parts: Any) -> Tensor:
    """The mLSTM's matrix memory without the running maximum that keeps its numbers small (Beck et al. 2024, eq. 15)."""
    memory, _, maximum = parts[0] if isinstance(parts[0], tuple) else (parts[0], None, parts[-1])
    if memory is None:
        raise Unavailable(f"{point.name}: the forward keeps no cache; pass use_cache=True")
    return memory.float() * maximum.float().exp()[..., None]


@derived()
def stacked(run: Run, point: Computed, parts: Any) -> Tensor:
    """Several tensors `[batch, ...]` as one, `[batch, parts, ...]`."""
    return torch.stack(list(_tensors(parts)), 1)


def _tensors(parts: Any) -> Iterator[Tensor]:
    yield from (part.clone() for part in parts)


@derived()
def wkv_states(run: Run, point: Computed, state: Tensor, keys: Tensor, values: Tensor, decays: Tensor) -> Tensor:
    """RWKV's running sums `[batch, seq, 3, channels]`: weighted values, weights, and the exponent both are scaled by.

    Each token is added with weight `exp(key)`, older ones decay (Peng et al. 2023, "RWKV", appendix D).
    """

    def step(state: Tensor, key: Tensor, value: Tensor, decay: Tensor) -> Tensor:
        above, below, largest = state.unbind(1)
        largest = largest + decay.log()
        top = torch.maximum(largest, key)
        old, new = torch.exp(largest - top), torch.exp(key - top)
        return torch.stack([old * above + new * value, old * below + new, top], 1)

    return _scan(state, step, keys, values, decays)
