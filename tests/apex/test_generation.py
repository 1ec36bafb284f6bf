"""Speculative decoding is lossless and pays; plain generation works in every form transformers offers."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens
from transformers import AutoTokenizer, TopPLogitsWarper

from nnatlas.apex import checkpoint_path
from nnatlas.apex.generation import MultiTokenDrafts, Speculation
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.corpus import split, standard_library
from nnatlas.apex.training.measure import pieces
from nnatlas.errors import InputError

GREEDY = {"do_sample": False, "pad_token_id": 0}


@pytest.fixture(scope="module")
def bundled():
    """The checkpoint, and 200 pieces of held-out code of 24 tokens each, [200, 24]."""
    folder = checkpoint_path()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    _, held_out = split(standard_library())
    prompts = pieces(tokenizer, [document.text for document in held_out], 200)
    model = Apex1ForCausalLM.from_pretrained(folder)
    model.generation_config.eos_token_id = None
    return model, torch.tensor(prompts)


def test_greedy_speculation_equals_greedy_on_200_prompts(bundled):
    """B9 B10 B11: it raised at once; drafts stood one place late; output differed."""
    model, prompts = bundled
    assert prompts.shape == (200, 24)
    mask = torch.ones_like(prompts)
    plain = model.generate(prompts, attention_mask=mask, max_new_tokens=8, **GREEDY)
    passes = accepted = 0
    for ids, expected in zip(prompts, plain, strict=True):
        fast = model.generate(ids[None], attention_mask=mask[:1], max_new_tokens=8, use_mtp=True, **GREEDY)
        assert torch.equal(fast[0], expected)
        passes, accepted = passes + model.speculation.passes, accepted + model.speculation.tokens
    assert accepted / passes > 1.5


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("length", [1, 7, 30])
def test_greedy_speculation_past_the_window(first, length):
    """B12 B13: rejected drafts left in the cache, and too few tokens returned."""
    model, ids = tiny_model(first_head_offset=first), tokens(1, 5)
    model.generation_config.eos_token_id = None
    plain = model.generate(ids, max_new_tokens=length, **GREEDY)
    fast = model.generate(ids, max_new_tokens=length, use_mtp=True, return_dict_in_generate=True, **GREEDY)
    assert torch.equal(fast.sequences, plain)
    assert fast.sequences.shape == (1, 5 + length)
    assert fast.past_key_values.get_seq_length() == 5 + length - 1
    assert model.speculation.tokens >= length - 1


def copying_model(**changes) -> Apex1ForCausalLM:
    """Next token x + 1, and heads at offsets 1 to 4 that say x + 1 to x + 4: every draft is right if well placed."""
    sizes = dict(num_hidden_layers=2, moe_enabled=False, skip_gate_enabled=False, hidden_size=64, logit_scale=1.0)
    model = tiny_model(**(sizes | changes))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embedding" in name:
                p.copy_(torch.eye(64))
            elif "W_O" in name or "W_down" in name:
                p.zero_()
            elif "norm" in name:
                p.fill_(1.0)
        for k, head in enumerate(model.multi_token_head.heads, start=1):
            head.weight.copy_(torch.eye(64).roll(k, dims=0))
    model.lm_head.weight = torch.nn.Parameter(torch.eye(64).roll(1, dims=0))
    return model


def test_b10_drafts_stand_where_they_were_trained():
    """Heads 2 to 4 guess the three tokens after the newest: four tokens a pass."""
    model = copying_model()
    model.generation_config.eos_token_id = None
    out = model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=17, use_mtp=True, **GREEDY)
    assert out[0].tolist() == list(range(3, 23))
    assert model.speculation == Speculation(passes=4, tokens=16)  # one token came with the prompt
    assert model.speculation.tokens_per_pass == 4.0


def test_b12_drafts_after_a_rejection_are_read_where_the_text_ends():
    """The head for the token after next is always right, the one after it always wrong: two tokens a pass, not one."""
    model = copying_model()
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        model.multi_token_head.heads[2].weight.copy_(torch.eye(64).roll(30, dims=0))
    out = model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=17, use_mtp=True, **GREEDY)
    assert out[0].tolist() == list(range(3, 23))
    assert model.speculation == Speculation(passes=8, tokens=16)


@pytest.mark.parametrize("draft_width", [0, 8])
def test_b11_sampled_speculation_has_the_models_own_distribution(draft_width):
    """Under temperature and top-p, each next token follows the model's exact law; unchecked drafts would not."""
    sizes = dict(vocab_size=6, num_hidden_layers=2, moe_enabled=False, skip_gate_enabled=False)
    model = tiny_model(**sizes, logit_scale=0.35, draft_width=draft_width)
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        for (
            block
        ) in model.model.blocks:  # the next token depends on the last one alone, so one long text has many draws
            block.attn.W_O.weight.zero_()
        every = torch.arange(6)[:, None]
        law = TopPLogitsWarper(0.9)(every, model(every).logits[:, -1] / 0.9).softmax(-1)
        drafts = model(every).spec_logits[1][:, -1].softmax(-1)
    torch.manual_seed(1)
    options = dict(do_sample=True, temperature=0.9, top_p=0.9, top_k=0, pad_token_id=0, use_mtp=True)
    text = model.generate(torch.tensor([[3]]), max_new_tokens=700, **options)[0]
    counts = torch.zeros(6, 6)
    for now, then in pairwise(text):
        counts[now, then] += 1
    states = counts.sum(-1, keepdim=True)
    share = (states / states.sum())[:, 0]
    distance = ((counts / states.clamp(min=1) - law).abs().sum(-1) / 2 * share).sum()
    noise = ((law * (1 - law) / states.clamp(min=1)).sqrt().sum(-1) / 2 * share).sum()
    assert states.min() > 20
    assert distance < 1.6 * noise
    assert ((drafts - law).abs().sum(-1) / 2 * share).sum() > 5 * noise
    assert 1.1 < model.speculation.tokens_per_pass < 3.5


def test_drafts_pass_through_the_same_processors_as_the_model():
    ban = lambda ids, scores: scores.index_fill(1, torch.tensor([7]), -math.inf)
    drafts = MultiTokenDrafts(1, False, ban, Speculation())
    head = torch.zeros(1, 3, 9).index_fill(2, torch.tensor([7]), 5.0).index_fill(2, torch.tensor([4]), 3.0)
    outputs = type("Outputs", (), {"spec_logits": (torch.full_like(head, -1), head, head)})
    ids, scores = drafts.get_candidates(torch.tensor([[1, 2]]), outputs, False, 1)
    assert ids.tolist() == [[1, 2, 4, 4]]
    assert scores.shape == (1, 2, 9)
    assert scores[0, :, 7].isneginf().all()


def test_speculation_needs_a_head_that_looks_ahead():
    with pytest.raises(InputError, match=r"have offsets \[1\]"):
        tiny_model(n_predict=1).generate(tokens(1, 4), use_mtp=True, max_new_tokens=3, **GREEDY)


def test_speculation_takes_one_row_and_an_empty_cache():
    """transformers would feed a given cache's tokens once more, and write something else without a word."""
    model, ids = tiny_model(), tokens(1, 6)
    with pytest.raises(InputError, match="one row at a time"):
        model.generate(tokens(2, 4), use_mtp=True, max_new_tokens=3, **GREEDY)
    held = model(ids[:, :4], use_cache=True).cache
    with pytest.raises(InputError, match="begins with an empty cache"):
        model.generate(ids, cache=held, use_mtp=True, max_new_tokens=3, **GREEDY)


@pytest.mark.parametrize("options", [{}, {"use_mtp": True}])
def test_generating_from_embeddings(options):
    model, ids = tiny_model(), tokens(1, 9)
    model.generation_config.eos_token_id = None
    expected = model.generate(ids, max_new_tokens=12, **GREEDY)[:, 9:]
    from_embeddings = model.generate(inputs_embeds=model.model.embedding(ids), max_new_tokens=12, **GREEDY, **options)
    assert torch.equal(from_embeddings, expected)


@pytest.mark.parametrize(
    "options", [{"repetition_penalty": 1.6}, {"no_repeat_ngram_size": 2}, {"bad_words_ids": [[54], [39, 12]]}]
)
def test_greedy_speculation_under_logits_processors(options):
    model, ids = tiny_model(draft_width=16), tokens(1, 5)
    model.generation_config.eos_token_id = None
    plain = model.generate(ids, max_new_tokens=20, **GREEDY, **options)
    assert not torch.equal(plain, model.generate(ids, max_new_tokens=20, **GREEDY))
    assert torch.equal(model.generate(ids, max_new_tokens=20, use_mtp=True, **GREEDY, **options), plain)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"cache_implementation": "static"}, {"use_cache": False}])
def test_a_left_padded_batch_generates_as_each_row_alone(options):
    """A6: batches could not be generated at all."""
    model, rows = tiny_model(), [tokens(1, 9, seed=1), tokens(1, 4, seed=2)]
    model.generation_config.eos_token_id = None
    ids = torch.cat([torch.nn.functional.pad(row, (9 - row.shape[1], 0)) for row in rows])
    mask = torch.stack([torch.arange(9) >= 9 - row.shape[1] for row in rows]).long()
    together = model.generate(ids, attention_mask=mask, max_new_tokens=12, **GREEDY, **options)
    for row, joint in zip(rows, together, strict=True):
        alone = model.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=12, **GREEDY, **options)
        assert torch.equal(joint[9 - row.shape[1] :], alone[0])


def test_sampling_is_repeatable_and_a_prefix_can_be_given():
    model, ids = tiny_model(), tokens(1, 8)
    model.generation_config.eos_token_id = None
    torch.manual_seed(3)
    first = model.generate(ids, do_sample=True, max_new_tokens=10, pad_token_id=0)
    torch.manual_seed(3)
    assert torch.equal(model.generate(ids, do_sample=True, max_new_tokens=10, pad_token_id=0), first)
    plain = model.generate(ids, max_new_tokens=10, **GREEDY)
    with_prefix = model.generate(ids, max_new_tokens=10, prefix_len=8, **GREEDY)
    assert not torch.equal(with_prefix, plain)
    fast = model.generate(ids, max_new_tokens=10, prefix_len=8, use_mtp=True, **GREEDY)
    assert torch.equal(fast, with_prefix)


def test_plain_decoding_leaves_the_heads_out():
    model, calls = tiny_model(), []
    model.multi_token_head.register_forward_hook(lambda *_: calls.append(1))
    model.generate(tokens(1, 4), max_new_tokens=4, **GREEDY)
    assert calls == []
