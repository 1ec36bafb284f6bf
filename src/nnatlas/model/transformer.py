"""StandardizedTransformer: any transformers language model under nnatlas's names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas import families, interior
from nnatlas.bind.tower import BoundTower
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import Generation, Run
from nnatlas.engine.inputs import Preparer
from nnatlas.errors import NotInRun
from nnatlas.model.node import ModelNode
from nnatlas.model.readout import project
from nnatlas.model.support import Support, support_of
from nnatlas.model.vision import seeing

if TYPE_CHECKING:
    from nnatlas.engine.standing import Function
    from nnatlas.model.collect import Collected
    from nnatlas.model.editing import Editing

assert interior  # imported for what it teaches the engine


class TracedRun(ModelNode):
    """An open run, which is the model's tree as well: `a.layers[8].layer_output` reads from run `a`.

    `stop()` abandons the rest of the forward; `output` is what the model returned, once it has.
    """

    def __init__(self, model: StandardizedTransformer, run: Run) -> None:
        super().__init__(model._owner, "", model._module, model._host, run)

    def __enter__(self) -> TracedRun:
        self._run.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._run.__exit__(*error)

    @property
    def output(self) -> Any:
        """What the model returned (of a generation: the ids, prompt included), or None while there is nothing yet."""
        return self._run.output

    def stop(self) -> None:
        """Abandon the rest of the forward; the body goes on, but nothing more can be read.

        >>> with model.trace(prompt) as run:
        ...     early = model.layers[2].layer_output
        ...     run.stop()  # layers 3 and up are never computed
        """
        self._run.stop()

    def __repr__(self) -> str:
        return f"<run on {type(self._module).__name__}, {self._run.state}>"

    def __rich__(self) -> str:
        return repr(self)


class TracedGeneration(TracedRun):
    """An open run over `generate`: besides what a run has, `steps()`, `step` and `text`."""

    def steps(self) -> Iterator[int]:
        """Go through the steps: the body of the loop sees one forward each, and code after the loop always runs.

        >>> with model.generate("Once upon a time", max_new_tokens=20) as run:
        ...     for step in run.steps():
        ...         model.layers[9].layer_output[:, -1] += vector
        """
        return self._run.steps()

    @property
    def step(self) -> int:
        """The number of the step that is running; 0 reads the prompt."""
        return self._run.step

    @property
    def text(self) -> Any:
        """What was generated after the prompt: a string, or a list of strings for several rows."""
        try:
            return self._run.text
        except AttributeError as error:  # Python now asks __getattr__, which raises this very error again
            self.__dict__["_raised"] = error
            raise


class StandardizedTransformer(ModelNode):
    """A language model with one name for one thing.  Made by `nnatlas.load`.

    `model.layers[5].self_attn.attention_probabilities` and every other value can be read and edited inside
    `with model.trace(prompt):`; `model.support()` says what is served and why the rest is not; `print(model)` shows the tree.
    Native names (`model.layers[0].self_attn.q_proj`) keep working, and `._module` is the transformers model itself.

    >>> model = nnatlas.load("tiny:llama")
    >>> with model.trace("Hello"):
    ...     hidden = model.layers[1].layer_output  # a torch tensor, [batch, seq, hidden_size]
    """

    def __init__(self, bound: BoundModel, tokenizer: Any = None, processor: Any = None) -> None:
        super().__init__(bound, "", bound.module, bound.root)
        tokenizer = getattr(processor, "tokenizer", None) if tokenizer is None else tokenizer
        self.__dict__["tokenizer"], self.__dict__["processor"] = tokenizer, processor
        self.__dict__["family"] = bound.family
        self.__dict__["_prepare"] = _preparer(bound, tokenizer, processor)

    def __reduce__(self) -> Any:
        """Copies and pickles carry the module and are bound anew: points hold places in one live module."""
        from nnatlas.model.load import wrap

        if self._owner.runs:
            raise NotInRun("a copy made now would carry the open run's hooks along: copy or pickle outside of runs")
        known = families.find(self.family.name)
        return wrap, (self._module, self.tokenizer, None if known is self.family else self.family, self.processor)

    # -- runs ------------------------------------------------------------------------------------------------------

    def trace(self, inputs: Any = None, *, growing: bool = False, **keywords: Any) -> TracedRun:
        """Open a run: one forward over `inputs`, read and edited in the body of the `with`.

        `inputs` is a string, a list of strings, ids `[seq]` or `[batch, seq]`, a batch dict, or chat messages.  Keywords go
        to the tokenizer (`add_special_tokens=False`) or to the forward (`position_ids=...`), each where it belongs.  Where
        the model takes images, `images=[...]` (Pillow or paths; for several prompts a list for each) or chat messages carry
        them, and `model.vision` and `model.projector` have values.

        With `growing`, an assignment may have more or fewer rows than the forward had, which then goes on with those.  What
        it has computed for each row by then (masks, positions) is not made anew, so begin without padding.  Standing edits
        that draw at random draw alike for all rows of such a run.

        Errors: `InputError` for what cannot be run; inside, `AlreadyRan`, `NeverReached`, `Unavailable`, `ReadOnly`.

        >>> with model.trace("The Eiffel Tower is in the city of"):
        ...     model.layers[5].mlp.mlp_output[:, -1] *= 0.5
        ...     probs = model.next_token_probs
        """
        batch = self._prepare(inputs, keywords)
        run = Run(self._owner, lambda: self._module(**batch), growing)
        return TracedRun(self, run if self._owner.vision is None else seeing(run, batch))

    def generate(self, inputs: Any = None, **keywords: Any) -> TracedGeneration:
        """Open a run over `generate`; go through its forwards with `for step in run.steps():`.

        Takes what `trace` takes and every keyword of transformers' `generate` (`max_new_tokens`, `do_sample`, ...).  After
        the `with`, `run.output` holds the ids, prompt included, and `run.text` what was generated.

        >>> with model.generate("Once upon a time", max_new_tokens=20) as run:
        ...     for step in run.steps():
        ...         model.layers[9].layer_output[:, -1] += vector
        >>> print(run.text)
        """
        also = _generate_keywords(self._module)
        batch = self._prepare(inputs, keywords, also)
        prompt = batch.get("input_ids")
        start = prompt.shape[1] if isinstance(prompt, Tensor) else 0
        run = Generation(self._owner, lambda: self._module.generate(**batch), lambda ids: self._decode(ids, start))
        return TracedGeneration(self, run if self._owner.vision is None else seeing(run, batch))

    def collect(self, inputs: Any, values: str | Iterable[str], **keywords: Any) -> Collected:
        """Values by name or pattern, in any order, from one forward that stops after the last one needed.

        >>> found = model.collect(prompt, ["layers.*.layer_output", "layers.3.self_attn.attention_probabilities"])
        >>> found["layers.3.layer_output"] is found.layers[3].layer_output
        True
        """
        from nnatlas.model.collect import collect

        return collect(self._owner, self._prepare(inputs, keywords), _listed(values))

    def editing(self, values: str | Iterable[str], function: Function, of: Any = None) -> Editing:
        """A standing edit: `function(value, call)` at one or more values, in every forward of the model inside the `with`.

        That is every forward of `trace`, `generate`, `collect` and of calling the model, or transformers' `generate`, itself.
        The function writes into the value, or returns what shall stand in its place (None: what it has written).  `call`
        says which tokens this forward reads (`engine.model_call.ModelCall`).  Several edits at one place are made in the
        order in which they were entered, and a read in a run sees the value after all of them.  `of` is what `edits()`
        lists it as.

        Errors, at this line: `Unavailable`, `ReadOnly`, and `InputError` for a name that nothing has.

        >>> with model.editing("layers.3.mlp.mlp_output", lambda value, call: value * 0.5):
        ...     with model.generate("Once upon a time", max_new_tokens=20) as run:
        ...         pass
        """
        from nnatlas.model.editing import Editing

        return Editing(self._owner, _listed(values), function, of)

    def edits(self) -> list[Any]:
        """The edits that stand on the model now, in the order in which they were entered."""
        from nnatlas.model.editing import standing_on

        return standing_on(self._owner)

    def _decode(self, ids: Any, start: int) -> Any:
        ids = getattr(ids, "sequences", ids)
        if self.tokenizer is None:
            return [row[start:].tolist() for row in ids]
        texts = [self.tokenizer.decode(row[start:], skip_special_tokens=True) for row in ids]
        return texts[0] if len(texts) == 1 else texts

    # -- the whole model -------------------------------------------------------------------------------------------

    def project_on_vocab(self, hidden: Tensor) -> Tensor:
        """Read any residual stream `[..., hidden_size]` out as logits `[..., vocab_size]`.

        Final norm, head, and every scale and cap the model applies, so that the last block's `layer_output` gives the
        model's own logits (nostalgebraist 2020, "interpreting GPT: the logit lens").
        """
        return project(self._owner, hidden)

    def support(self) -> Support:
        """What is served where, and the reason wherever it is not; known from the row and the config, before any run."""
        return support_of(self._owner)

    def check(self, **options: Any) -> Any:
        """Run the laws on this model (see `nnatlas.check`)."""
        from nnatlas.check import check

        return check(self, **options)

    @property
    def config(self) -> Any:
        """The transformers config."""
        return self._module.config

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return self._prepare.device

    def _repr_html_(self) -> str:
        from nnatlas.model.printing import tree_html

        return tree_html(self)


def _listed(values: str | Iterable[str]) -> list[str]:
    """One name or several as a list; what is neither is left for the look-up to refuse."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def _preparer(bound: BoundModel, tokenizer: Any, processor: Any) -> Preparer:
    """What makes batches for a model; with pictures in them where it has a tower."""
    positions = not bound.family.counts_positions
    if isinstance(bound.vision, BoundTower):
        from nnatlas.model.image_inputs import ImagePreparer

        return ImagePreparer(bound.module, bound.vision, processor, tokenizer, positions)
    return Preparer(bound.module, tokenizer, positions)


def _generate_keywords(module: Any) -> tuple[str, ...]:
    """Keywords of `generate` and of its configuration."""
    config = getattr(module, "generation_config", None)
    named = inspect.signature(type(module).generate).parameters if hasattr(type(module), "generate") else {}
    return (*named, *(vars(config) if config is not None else ()), "generation_config")
