"""load: from a name, folder, config or module to a model under standard names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from nnatlas import families
from nnatlas.bind import bind
from nnatlas.errors import InputError, UnsupportedFamily
from nnatlas.families._row import Family
from nnatlas.model.transformer import StandardizedTransformer

TINY = "tiny:"
BUNDLED = "apex-1"


def load(
    source: Any, *, tokenizer: Any = None, family: Family | None = None, task: str = "text-generation", **options: Any
) -> StandardizedTransformer:
    """Load a language model and give its values their standard names.

    `source` is a Hub id or a folder, a name that comes with nnatlas (`"smollm2"`, fetched once; `"apex-1"`, bundled;
    `"tiny:<model_type>"`, a small random model of that family with a byte tokenizer), a config (random weights), or a module
    that is already built, which is used as it is: nothing is copied and its `requires_grad` is left alone.  Everything else
    goes to transformers' `from_pretrained`: `dtype`, `device_map`, `attn_implementation`, `trust_remote_code`,
    `quantization_config`, `revision`, ...

    A model loaded by name does not ask for gradients: call `x.requires_grad_()` on a value, or on parameters, to have them.
    Errors: `UnsupportedFamily`, `RowDoesNotFit`, `InputError`, `DamagedFile`.

    >>> model = nnatlas.load("tiny:llama", attn_implementation="eager")
    >>> model.num_layers
    4
    """
    if isinstance(source, nn.Module):
        if options:
            raise InputError(f"a built module takes no loading options, got {', '.join(options)}")
        return wrap(source, tokenizer, family)
    module, own_tokenizer = (
        _from_name(source, task, options, tokenizer) if isinstance(source, str | Path) else (None, None)
    )
    if module is None:
        module = _auto(task).from_config(source, **options).eval()
    module.requires_grad_(False)
    return wrap(module, tokenizer if tokenizer is not None else own_tokenizer, family)


def wrap(module: nn.Module, tokenizer: Any = None, family: Family | None = None) -> StandardizedTransformer:
    """Bind a built module to its family's row."""
    return StandardizedTransformer(bind(module, family or _family(module)), tokenizer)


def _family(module: nn.Module) -> Family:
    config = getattr(module, "config", None)
    kind = getattr(config, "model_type", None)
    if kind is None:
        raise InputError(f"{type(module).__name__} is not a transformers model: it has no config with a model_type")
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in dict.fromkeys((kind, getattr(text, "model_type", kind))):
        found = families.find(name)
        if found is not None:
            return found
    raise UnsupportedFamily(
        f"no row covers model_type {kind!r}. There are rows for: {', '.join(sorted(families.rows()))}. "
        "To describe this one yourself, pass family=; docs/adding-a-family.md shows how"
    )


def _from_name(source: str | Path, task: str, options: dict[str, Any], tokenizer: Any) -> tuple[nn.Module, Any]:
    """A module and its tokenizer for a name, a Hub id or a folder."""
    name = str(source)
    if name.startswith(TINY):
        return _tiny(name.removeprefix(TINY), task, options)
    return _pretrained(_place(name), task, options, tokenizer)


def _place(name: str) -> str:
    """The folder behind a name that nnatlas knows; anything else is for transformers to find."""
    from nnatlas import pull

    if name == BUNDLED:
        from nnatlas.apex import checkpoint_path, register

        register()
        return str(checkpoint_path())
    return str(pull.pull(name)) if name in pull.CHECKPOINTS else name


def _tiny(model_type: str, task: str, options: dict[str, Any]) -> tuple[nn.Module, Any]:
    from nnatlas import tiny

    row = families.find(model_type)
    made = tiny.tiny_model(
        model_type, row.tiny if row else {}, task=None if task == "text-generation" else task, **options
    )
    return made, tiny.byte_tokenizer()


def _auto(task: str) -> Any:
    import transformers

    classes = {"text-generation": "AutoModelForCausalLM", "image-text-to-text": "AutoModelForImageTextToText"}
    if task not in classes:
        raise InputError(f"task is one of {', '.join(classes)}, not {task!r}")
    return getattr(transformers, classes[task])


def _pretrained(name: str, task: str, options: dict[str, Any], tokenizer: Any) -> tuple[nn.Module, Any]:
    from transformers import AutoTokenizer

    shared = {
        key: options[key]
        for key in ("revision", "token", "trust_remote_code", "cache_dir", "local_files_only")
        if key in options
    }
    module = _auto(task).from_pretrained(name, **options)
    return module.eval(), AutoTokenizer.from_pretrained(name, **shared) if tokenizer is None else tokenizer
