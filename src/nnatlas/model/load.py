"""load: from a name, folder, config or module to a model under standard names."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from pathlib import Path
from typing import Any

from torch import nn

from nnatlas import families
from nnatlas.bind import bind
from nnatlas.bind.paths import lookup
from nnatlas.bind.tower import bind_tower, refuse
from nnatlas.errors import InputError, RowDoesNotFit, UnsupportedFamily
from nnatlas.families import wrappers
from nnatlas.families._excluded import EXCLUDED
from nnatlas.families._row import Family
from nnatlas.families._wrapper import Without, Wrapper
from nnatlas.model.transformer import StandardizedTransformer

TINY = "tiny:"
BUNDLED = "apex-1"
FREE_ID = 300
_OF_WRAPPERS = ("vision_config", "vq_config", "image_token_id", "image_token_index", "protein_encoder_config")
_OF_TINY = {"attn_implementation", "dtype", "seed"}
NO_IMAGES = "this model reads text alone"
NO_WRAPPER = "nobody has written down how images get into this type yet"


def load(
    source: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    family: Family | None = None,
    task: str | None = None,
    **options: Any,
) -> StandardizedTransformer:
    """Load a language model and give its values their standard names.

    `source` is a Hub id or a folder, a name that comes with nnatlas (`"smollm2"`, fetched once; `"apex-1"`, bundled;
    `"tiny:<model_type>"`, a small random model of that family with a byte tokenizer), a config (random weights), or a module
    that is already built, which is used as it is: nothing is copied and its `requires_grad` is left alone.  Everything else
    goes to transformers' `from_pretrained`: `dtype`, `device_map`, `attn_implementation`, `trust_remote_code`,
    `quantization_config`, `revision`, ...  `task` is `"text-generation"` or `"image-text-to-text"`, by default the first of
    the two that transformers has a model for; a model for images and text comes with its `processor`.

    A model loaded by name does not ask for gradients: call `x.requires_grad_()` on a value, or on parameters, to have them.
    Errors: `UnsupportedFamily`, `RowDoesNotFit`, `InputError`, `DamagedFile`.

    >>> model = nnatlas.load("tiny:llama", attn_implementation="eager")
    >>> model.num_layers
    4
    """
    if isinstance(source, nn.Module):
        if options:
            raise InputError(f"a built module takes no loading options, got {', '.join(options)}")
        return wrap(source, tokenizer, family, processor)
    if isinstance(source, str | Path):
        module, tokenizer, processor = _from_name(source, task, options, tokenizer, processor)
    elif not hasattr(type(source), "model_type"):
        raise InputError(f"load takes a name, a folder, a config or a built module, not a {type(source).__name__}")
    else:
        module = _auto(task, source).from_config(source, **options).eval()
    module.requires_grad_(False)
    return wrap(module, tokenizer, family, processor)


def wrap(
    module: nn.Module, tokenizer: Any = None, family: Family | None = None, processor: Any = None
) -> StandardizedTransformer:
    """Bind a built module to its family's row; without one, to a row that is guessed and proven (`nnatlas.guess`)."""
    if isinstance(getattr(module, "_orig_mod", None), nn.Module):
        raise InputError("this module is compiled: hooks inside are not looked at. Load the module itself")
    module = _inside(module)
    rows = _rows(module) if family is None else [family.parsed()]
    if not rows:
        from nnatlas.guess import guess  # proves by running the laws, which themselves need models

        return guess(module, tokenizer)
    *others, last = rows
    for row in others:
        with contextlib.suppress(RowDoesNotFit):
            return _standard(module, row, tokenizer, processor)
    try:
        return _standard(module, last, tokenizer, processor)
    except RowDoesNotFit as fault:
        if getattr(module, "base_model", None) is not module:
            raise
        raise InputError(f"{type(module).__name__} has no head: load the language model around it ({fault})") from None


def _inside(module: Any) -> nn.Module:
    """The model that PEFT has put adapters into, in place of the wrapper around it, which computes the same.

    A wrapper that puts tokens of its own in front of the prompt is more than what is inside it, and stays.
    """
    inner = module.get_base_model() if hasattr(module, "get_base_model") else module
    return module if inner is getattr(module, "base_model", None) else inner


def _standard(module: nn.Module, row: Family, tokenizer: Any, processor: Any) -> StandardizedTransformer:
    """A bound model, with its tower in front where it takes images."""
    bound = bind(module, row)
    wrapper = wrapper_of(module.config)
    if isinstance(wrapper, Wrapper):
        bind_tower(bound, wrapper)
    else:
        refuse(bound, NO_IMAGES if wrapper is None else wrapper.reason)
    return StandardizedTransformer(bound, tokenizer, processor)


def wrapper_of(config: Any) -> Wrapper | Without | None:
    """The wrapper row of a config; None for a model that reads text alone."""
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    if inner is config and not any(hasattr(config, name) for name in _OF_WRAPPERS):
        return None  # without reading the table
    found = wrappers.find(config.model_type)
    if found is None and hasattr(config, "vision_config"):
        return Without((config.model_type,), NO_WRAPPER)
    return None if inner is config and isinstance(found, Wrapper) and not hasattr(config, found.config) else found


def _rows(module: nn.Module) -> list[Family]:
    """The rows that may describe a module, the likeliest first.

    A wrapper may be built around text models of several types, so its blocks are those of its text model's own row; how
    it reads them out is the wrapper's.  None at all for a type that nnatlas does not know.
    """
    config = getattr(module, "config", None)
    kind = getattr(config, "model_type", None)
    if kind is None:
        within = hasattr(getattr(module, "module", None), "config")  # as DataParallel has it
        raise InputError(
            f"{type(module).__name__} is not a transformers model: it has no config with a model_type"
            + ("; hand in the model inside it, its .module" if within else "")
        )
    text = config.get_text_config() if config is not None and hasattr(config, "get_text_config") else config
    text_kind = getattr(text, "model_type", kind)
    _require(kind)
    _require(text_kind)
    outer, inner = families.find(kind), families.find(text_kind)
    if outer is not None and inner is not None and outer is not inner:
        return [_around(inner, outer), outer]
    if (found := outer or inner) is not None:
        return [found]
    if kind in EXCLUDED:
        raise UnsupportedFamily(f"model_type {kind!r} is not a decoder-only language model. It is {EXCLUDED[kind]}.")
    return []


def _around(inner: Family, outer: Family) -> Family:
    """A text model's row inside a wrapper: the wrapper's readout, and what either says of itself."""
    return inner.remade(
        readout=outer.readout,
        passes=(*inner.passes, *outer.passes),
        notes={**inner.notes, **outer.notes},
        breaks={**inner.breaks, **outer.breaks},
    )


def _from_name(
    source: str | Path, task: str | None, options: dict[str, Any], tokenizer: Any, processor: Any
) -> tuple[nn.Module, Any, Any]:
    """A module, its tokenizer and its processor for a name, a Hub id or a folder."""
    name = str(source)
    if name.startswith(TINY):
        module, own_tokenizer, own_processor = _tiny(name.removeprefix(TINY), task, options)
    else:
        module, own_tokenizer, own_processor = _pretrained(_place(name), task, options, tokenizer, processor)
    own = processor if processor is not None else own_processor
    return module, tokenizer if tokenizer is not None else own_tokenizer, own


def _place(name: str) -> str:
    """The folder behind a name that nnatlas knows; anything else is for transformers to find."""
    from nnatlas.pull import CHECKPOINTS, pull

    if name == BUNDLED:
        from nnatlas.apex import checkpoint_path, register

        register()
        return str(checkpoint_path())
    return str(pull(name)) if name in CHECKPOINTS else name


def _tiny(model_type: str, task: str | None, options: dict[str, Any]) -> tuple[nn.Module, Any, Any]:
    """A small random model of a type, with a byte tokenizer and, where it is loaded to see, a small processor.

    What must be set by hand for a type to be small and yet unlike its neutral self stands in its row (`tiny`).
    """
    from nnatlas import tiny

    _require(model_type)
    row = families.find(model_type)
    if row is not None and row.defined_in:
        importlib.import_module(row.defined_in)  # makes the type known to transformers
    task = {"text-generation": "causal-lm"}.get(task or "", task)
    own = wrappers.find(model_type) if tiny.shows_pictures(model_type, task) else None
    given = {**(row.tiny if row else {}), **(own.tiny if isinstance(own, Wrapper) else {})}
    if unknown := set(options) - _OF_TINY:
        raise InputError(f"a tiny model takes {', '.join(sorted(_OF_TINY))}; not {', '.join(sorted(unknown))}")
    module = tiny.tiny_model(model_type, given, task=task, **options)
    wrapper = wrapper_of(module.config)
    vision = lookup(module.config, wrapper.config) if isinstance(wrapper, Wrapper) else None
    image = _image_token(module.config, wrapper) if isinstance(wrapper, Wrapper) else None
    if vision is None or not isinstance(image, int):
        return module, tiny.byte_tokenizer(), None
    processor = tiny.TinyProcessor(module, vision, wrapper.pictures, image, wrapper.tokens)  # type: ignore[union-attr]
    return module, processor.tokenizer, processor


def _require(model_type: str) -> None:
    """Refuse a type that only a newer transformers has."""
    if why := families.lacking(model_type):
        raise UnsupportedFamily(f"{why}, then run this again.")


def _image_token(config: Any, wrapper: Wrapper) -> Any:
    """The id that stands for the image: the config's, or one of no other use where a mask says where the image is."""
    return FREE_ID if wrapper.marks or wrapper.in_front else lookup(config, wrapper.image_token)


def _auto(task: str | None, config: Any) -> Any:
    """The auto class of a task; where none is asked for, the first that has a model for this config."""
    import transformers

    classes: dict[str, Any] = {
        "text-generation": transformers.AutoModelForCausalLM,
        "image-text-to-text": transformers.AutoModelForImageTextToText,
    }
    if task is None:
        fitting = (auto for auto in classes.values() if type(config) in auto._model_mapping)
        return next(fitting, classes["text-generation"])
    if task not in classes:
        raise InputError(f"task is one of {', '.join(classes)}, not {task!r}")
    return classes[task]


def _pretrained(
    name: str, task: str | None, options: dict[str, Any], tokenizer: Any, processor: Any
) -> tuple[nn.Module, Any, Any]:
    """A checkpoint by Hub id or folder, through the Auto class of the task, with its tokenizer and processor unless given.

    The config is read first, so that a type that this transformers does not know is refused by name before any download.
    """
    from transformers import AutoConfig, AutoTokenizer, PretrainedConfig

    shared: dict[str, Any] = {
        key: options[key]
        for key in ("revision", "token", "trust_remote_code", "cache_dir", "local_files_only")
        if key in options
    }
    try:
        config = AutoConfig.from_pretrained(name, **shared)
    except ValueError:  # a type that transformers does not know
        _require(PretrainedConfig.get_config_dict(name, **shared)[0].get("model_type", ""))
        raise
    module = _auto(task, config).from_pretrained(name, **options).eval()
    if processor is None and isinstance(wrapper_of(module.config), Wrapper):
        processor = _processor(name, shared)
    if tokenizer is None:
        tokenizer = getattr(processor, "tokenizer", None) or AutoTokenizer.from_pretrained(name, **shared)
    return module, tokenizer, processor


def _processor(name: str, shared: dict[str, Any]) -> Any:
    """The processor saved beside a wrapper; None where there is none, and the model is used on text alone."""
    from transformers import AutoProcessor
    from transformers.utils import is_torchvision_available

    try:
        found = AutoProcessor.from_pretrained(name, **shared)
    except (OSError, ValueError):
        return None
    except (ImportError, AttributeError) as fault:  # some ask for torchvision, and stumble where it is not installed
        why = " ".join(str(fault).split())
        needs = (
            ""
            if is_torchvision_available()
            else "; many need torchvision, which is not installed: pip install torchvision"
        )
        said = f"the processor of {name} cannot be made here, so images= is not taken: {why}{needs}"
        warnings.warn(said, stacklevel=2)
        return None
    return found if hasattr(found, "image_processor") else None
