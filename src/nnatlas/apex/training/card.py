"""The model card, written from the recipe and the measurements, so that it cannot say anything else."""

from __future__ import annotations

from nnatlas.apex.training.recipe import Recipe

CARD = """\
---
license: mit
library_name: nnatlas
pipeline_tag: text-generation
---
# apex-1: a small APEX-1 trained on the Python standard library

{millions:.2f} million parameters, {active:.2f} million of which a token passes through. It writes something that looks like
Python. It is here to be looked into: local and latent attention, dense and expert blocks, and three heads for tokens
further ahead, in a file that ships with the package and loads without a network.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer
import nnatlas.apex

nnatlas.apex.register()
folder = nnatlas.apex.checkpoint_path()
model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
ids = tokenizer("def __init__(self, name):", return_tensors="pt")
print(tokenizer.decode(model.generate(**ids, max_new_tokens=40, use_mtp=True)[0]))
```

## What it has learnt (on standard-library modules held out of training)

| measurement | value |
|---|---|
| loss, nats per token | {loss:.3f} |
| bits per byte | {bits_per_byte:.3f} |
| gzip -9, bits per byte, file by file (all files in one piece) | {gzip_bits_per_byte:.3f} ({gzip_together_bits_per_byte:.3f}) |
| xz -9e, bits per byte, file by file (all files in one piece) | {xz_bits_per_byte:.3f} ({xz_together_bits_per_byte:.3f}) |
| right closing bracket of the three, where one follows | {bracket_accuracy:.1%} (always ")": {bracket_commonest:.1%}) |
| loss on 24 random tokens, then on the same tokens again | {first_copy_loss:.2f}, then {second_copy_loss:.2f} nats |
| strongest induction head | block {induction_block}, head {induction_head}: {induction_score:.2f} of its attention |
| tokens per pass of speculative decoding, 48 tokens after files' beginnings, greedy | {greedy_tokens_per_pass:.2f} |
| the same, sampled | {sampled_tokens_per_pass:.2f} |
| the same, 12 tokens after pieces from within files, greedy | {greedy_tokens_per_pass_within:.2f} |
| the same, sampled | {sampled_tokens_per_pass_within:.2f} |
| 48 tokens after files' beginnings, greedy, without the draft chain | {heads_alone_tokens_per_pass:.2f} |

The compressors have seen nothing before the files; the model has seen the rest of the library. It reads each file in
windows of 256 tokens, every token with at least 127 before it (fewer at a file's start).

The induction head attends, wherever a token has occurred before, to the token that followed it then. Its score is the mean
attention paid there on random tokens shown twice; uniform attention would give 0.03.

## How it was made

`nnatlas apex train`, with transformers' Trainer, on the source of the standard library of CPython (its tests left out);
files whose name hashes into a fixed 4 % are held out. `recipe.json` is the whole recipe:
{steps} steps of {step_tokens} tokens ({total_tokens:.1f} million in all), seed {seed}, AdamW at a peak of {learning_rate:g},
a byte-level BPE of {vocab_size} tokens trained on the same text. One block in {drill_every} is a copying drill: tokens of
the block in random order, shown again and again, learnt from their second showing on; steps {drill_steps} are nothing
but such drills, which is when the induction head forms, and from step {mixed_from} on, while the learning rate falls, half
of every batch is, without which text alone would wash it out again. Then the heads for tokens further ahead alone were
tuned for {head_steps} steps on what the model itself writes after {head_prompts} pieces of the text. Last, with all else as
it was, a draft chain of width {draft_width} was put beside them, which tells each head the tokens placed before the one it
guesses, and both were tuned for {draft_steps} steps to the model's own distributions.
Training loss, drills included (next token plus the weighted heads):
{curve}.

Weights are stored in float16 and load as float32; the numbers above are those of the stored weights.

## What it is not

It is trained for minutes, not weeks: it knows the look of Python and copies well, and it knows no facts. Contexts beyond 256
tokens work but were not trained.
"""


def model_card(
    recipe: Recipe, counts: dict[str, int], measurements: dict[str, float], curve: list[tuple[int, float]]
) -> str:
    """The card as Markdown, with transformers' metadata block on top."""
    step_tokens = recipe.batch_size * recipe.accumulate * recipe.seq_len
    every = max(len(curve) // 8, 1)
    shown = [*curve[::every], *([curve[-1]] if curve and (len(curve) - 1) % every else [])]
    return CARD.format(
        millions=counts["total"] / 1e6,
        active=counts["active"] / 1e6,
        step_tokens=step_tokens,
        total_tokens=step_tokens * recipe.steps / 1e6,
        steps=recipe.steps,
        seed=recipe.seed,
        learning_rate=recipe.learning_rate,
        vocab_size=recipe.vocab_size,
        drill_every=recipe.drill_every,
        head_steps=recipe.head_steps,
        head_prompts=recipe.head_prompts,
        draft_width=recipe.draft_width,
        draft_steps=recipe.draft_steps,
        mixed_from=recipe.mixed_from,
        drill_steps="{} to {}".format(*(recipe.drill_steps or (0, 0))),
        curve=", ".join(f"{loss:.2f} at step {step}" for step, loss in shown) or "too short to tell",
        **measurements,
    )
