"""`nnatlas apex`: train an APEX-1 on this interpreter's standard library or on any text files, and measure it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nnatlas.apex.training.corpus import Document

app = typer.Typer(help="Train and measure the reference model, APEX-1.", no_args_is_help=True)

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Text files or folders to train on; without any, the standard library's own source."),
]
Run = Annotated[Path, typer.Option("--out", help="The run's folder; give it again to go on after a stop.")]


@app.command()
def train(
    files: Files = None,
    out: Run = Path("apex-run"),
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides weights and the order of the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Blocks of text per step.")] = None,
    seq_len: Annotated[int | None, typer.Option(help="Tokens per block.")] = None,
    vocab_size: Annotated[int | None, typer.Option(help="Tokens in the vocabulary that is trained first.")] = None,
    save_every: Annotated[int | None, typer.Option(help="Steps between checkpoints.")] = None,
    head_prompts: Annotated[int | None, typer.Option(help="Pieces of text that the extra heads are tuned on.")] = None,
    head_steps: Annotated[int | None, typer.Option(help="Steps of that tuning; 0 leaves it out.")] = None,
    draft_steps: Annotated[int | None, typer.Option(help="Steps of tuning their draft chain; 0: no chain.")] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; all of them if not given.")] = None,
) -> None:
    """Train an APEX-1.  Stopped or killed, it goes on from its last checkpoint when run again with the same --out."""
    import torch

    from nnatlas.apex.training.recipe import Recipe
    from nnatlas.apex.training.run import train as run_training

    if threads:
        torch.set_num_threads(threads)
    recipe = Recipe().but(
        steps=steps, seed=seed, batch_size=batch_size, seq_len=seq_len, vocab_size=vocab_size, save_every=save_every,
        head_prompts=head_prompts, head_steps=head_steps, draft_steps=draft_steps,
    )  # fmt: skip
    run_training(recipe, _documents(files), out)
    typer.echo(
        f"trained: {out / 'final'}; next, `nnatlas apex bundle --out {out} FOLDER` measures it and writes its card"
    )


@app.command()
def bundle(
    destination: Annotated[Path, typer.Argument(help="Where to put the checkpoint.")],
    files: Annotated[list[Path] | None, typer.Option("--files", help="The files it was trained on, if any.")] = None,
    out: Run = Path("apex-run"),
) -> None:
    """Measure a finished run on its held-out files and write it, half the size, with a model card."""
    from nnatlas.apex.training.bundle import bundle as write_bundle

    write_bundle(out, _documents(files), destination)
    typer.echo(f"written: {destination}")


@app.command()
def measure(
    folder: Annotated[Path | None, typer.Argument(help="A checkpoint; the bundled one if not given.")] = None,
    files: Annotated[list[Path] | None, typer.Option("--files", help="Measure on the held-out part of these.")] = None,
) -> None:
    """Bits per byte beside gzip and xz, brackets, induction and speculative decoding of a checkpoint."""
    from transformers import AutoTokenizer

    from nnatlas.apex import Apex1ForCausalLM, checkpoint_path
    from nnatlas.apex.training.corpus import split
    from nnatlas.apex.training.measure import measure as take

    where = folder or checkpoint_path()
    model, tokenizer = Apex1ForCausalLM.from_pretrained(where), AutoTokenizer.from_pretrained(where)
    for name, value in take(model, tokenizer, split(_documents(files))[1]).as_dict().items():
        typer.echo(f"{name:30} {value:.4g}")


def _documents(files: list[Path] | None) -> list[Document]:
    from nnatlas.apex.training.corpus import from_files, standard_library

    return from_files(files) if files else standard_library()
