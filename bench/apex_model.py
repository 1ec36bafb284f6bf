"""APEX-1: grouped experts against a loop, absorbed latent decoding against re-expanding, tiny against a Llama."""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.harness import Row, ratio, shown, side_by_side
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.feedforward import Apex1MoE
from nnatlas.apex.modeling import Apex1ForCausalLM


def times_faster(
    work: str, ours: Callable[[], Any], slow: Callable[[], Any], budget: float | None, rounds: int = 20
) -> Row:
    """How many times longer the slow way takes."""
    mine, theirs = side_by_side(ours, slow, rounds=rounds)
    return Row(work, shown(mine), shown(theirs), ratio(theirs, mine), budget, "times faster", at_least=True)


@torch.no_grad()
def bench_experts() -> Iterator[Row]:
    """256 tokens through 8 and 64 experts of 256 x 256: transformers' grouped dispatch and a loop over the experts."""
    for experts, active, budget in ((8, 2, None), (64, 4, 1.5)):
        config = Apex1Config(hidden_size=256, intermediate_size=256, n_experts=experts, n_active=active)
        moe, x = Apex1MoE(config).eval(), torch.randn(256, 256)
        for parameter in moe.parameters():
            parameter.normal_(std=0.02)
        _, weights, indices = moe.router(x, moe.expert_bias)

        def run(implementation: str, moe: Apex1MoE = moe, call: tuple = (x, indices, weights)) -> torch.Tensor:
            moe.routed_experts.config._experts_implementation = implementation
            return moe.routed_experts(*call)

        torch.testing.assert_close(run("grouped_mm"), run("eager"))
        work = f"256 tokens through {experts} experts, grouped against a loop"
        yield times_faster(work, lambda run=run: run("grouped_mm"), lambda run=run: run("eager"), budget)


@torch.no_grad()
def bench_latent_decoding() -> Iterator[Row]:
    """One token over 4,096 cached latents in one global block of the medium preset, absorbed and re-expanded."""
    config = Apex1Config.preset("medium", attn_implementation="sdpa")
    with torch.device("meta"):
        block = Apex1ForCausalLM(Apex1Config.preset("medium", n_layers=6, attn_implementation="sdpa")).model.blocks[5]
    attention = block.attn.to_empty(device="cpu").eval()
    for parameter in attention.parameters():
        parameter.normal_(std=0.02)
    keys, kv_heads = 4096, config.num_key_value_heads
    latent, rope_key = torch.randn(1, 1, keys, config.kv_lora_rank), torch.randn(1, kv_heads, keys, config.d_head_rope)
    query = torch.randn(1, config.num_attention_heads, 1, config.head_dim)
    rope_query = torch.randn(1, config.num_attention_heads, 1, config.d_head_rope)

    def absorbed() -> torch.Tensor:
        return attention.attend_absorbed(query, rope_query, latent, rope_key, None)[0]

    def expanded() -> torch.Tensor:
        return attention.attend_expanded(query, rope_query, latent, rope_key, None)[0]

    torch.testing.assert_close(absorbed(), expanded(), atol=1e-4, rtol=1e-3)
    yield times_faster("one token over 4,096 latents, absorbed against re-expanding", absorbed, expanded, 10.0)


def llama_of(parameters: int, config: Apex1Config) -> LlamaForCausalLM:
    """A Llama of the same depth, width, heads and vocabulary with as many parameters, by way of its feed-forward."""
    sizes = dict(
        vocab_size=config.vocab_size, hidden_size=config.hidden_size, num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads, num_key_value_heads=config.num_key_value_heads,
        tie_word_embeddings=True, max_position_embeddings=config.max_position_embeddings,
    )  # fmt: skip
    count = lambda width: sum(
        p.numel() for p in LlamaForCausalLM(LlamaConfig(intermediate_size=width, **sizes)).parameters()
    )
    narrow, wide = count(8), count(16)
    return LlamaForCausalLM(
        LlamaConfig(intermediate_size=8 + 8 * (parameters - narrow) // (wide - narrow), **sizes)
    ).eval()


@torch.no_grad()
def tiny_against_llama(changes: dict[str, Any]) -> tuple[list[float], list[float], str]:
    """Seconds of a forward of 8 x 256 tokens, APEX-1 tiny's and a Llama's of as many parameters per token."""
    ids = torch.randint(3, 1000, (8, 256))
    apex = Apex1ForCausalLM(Apex1Config.preset("tiny", **changes)).eval()
    active = apex.count_parameters()["active"]
    llama = llama_of(active, apex.config)
    mine, theirs = side_by_side(lambda: apex(ids, use_cache=False), lambda: llama(ids, use_cache=False), rounds=20)
    return mine, theirs, f"{active:,} parameters a token, Llama {llama.num_parameters():,}"


def keep_freed_memory() -> None:
    """Let glibc's malloc keep what is freed, where it would give back large blocks and fault them in again, page by page."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD: the largest that glibc takes
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def bench_tiny_against_llama() -> Iterator[Row]:
    """The whole model, then part by part, then the whole without the cost of fresh memory.

    The four extra heads write 33 MB of logits beside the main head's 8; glibc gives as much back after every forward.
    """
    parts = {
        "APEX-1 tiny": ({}, 1.1),
        "... without the skip gate": ({"skip_gate_enabled": False}, None),
        "... nor experts": ({"skip_gate_enabled": False, "moe_enabled": False}, None),
        "... nor extra heads": ({"skip_gate_enabled": False, "moe_enabled": False, "n_predict": 0}, None),
    }
    for name, (changes, budget) in parts.items():
        yield _tiny_row(name, budget, *tiny_against_llama(changes))
    spawn = multiprocessing.get_context(
        "spawn"
    )  # a process of its own: malloc's settings would stay for other benchmarks
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=keep_freed_memory) as process:
        yield _tiny_row("APEX-1 tiny, freed memory kept", 1.1, *process.submit(tiny_against_llama, {}).result())


def _tiny_row(name: str, budget: float | None, mine: list[float], theirs: list[float], note: str) -> Row:
    work = f"{name}, forward of 8 x 256 tokens"
    return Row(work, shown(mine), shown(theirs), ratio(mine, theirs), budget, note)
