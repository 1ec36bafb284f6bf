"""A sparse dictionary: an autoencoder or a transcoder with its weights, whoever trained it.

It knows numbers only; where in a model it belongs is in `place`, and `splicing` puts it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor

from nnatlas.dictionaries.activations import Activation
from nnatlas.dictionaries.places import Place
from nnatlas.errors import LayoutError

if TYPE_CHECKING:
    from nnatlas.dictionaries.features import FeatureActivations
    from nnatlas.dictionaries.splicing import Code, Splice
    from nnatlas.model import StandardizedTransformer

Back = Callable[[Tensor], Tensor]
LEAST: Final = 1e-5


@dataclass(frozen=True)
class Dictionary:
    """A sparse autoencoder, or a transcoder, which writes what a module makes of what it reads.

    `features` many directions: `encoder` is `d_in features`, `decoder` `features d_out`, `decoder_bias` `d_out`.  `centred`
    is whether the decoder's bias is taken off the input, `normalise` how the input is scaled for each token, `skip` `d_out
    d_in` what goes past the features, `feature_scale` what activations are multiplied by before they are decoded.
    `metadata` is what else the folder says of it: the model, the data, `prepend_bos` (whether it was trained on texts with a
    begin token, which your prompts should then have too).

    >>> sae = dictionaries.load_dictionary("gpt2-small-res-jb/blocks.8.hook_resid_pre")
    >>> sae.features(model, "The cat sat").top(3)
    >>> with sae.splice(model, error=False), model.trace("The cat sat"):
    ...     logits = model.logits
    """

    name: str
    architecture: str
    encoder: Tensor = field(repr=False)
    decoder: Tensor = field(repr=False)
    decoder_bias: Tensor = field(repr=False)
    activation: Activation = field(repr=False)
    place: Place
    centred: bool = True
    normalise: str = "none"
    skip: Tensor | None = field(default=None, repr=False)
    feature_scale: Tensor | None = field(default=None, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def d_in(self) -> int:
        """Width of what it reads."""
        return self.encoder.shape[0]

    @property
    def d_out(self) -> int:
        """Width of what it writes."""
        return self.decoder.shape[1]

    @property
    def size(self) -> int:
        """How many features it has."""
        return self.encoder.shape[1]

    # -- the arithmetic --------------------------------------------------------------------------------------------

    def encode(self, value: Tensor) -> Tensor:
        """The features of a value, `[..., d_in]` or with its heads apart, as `[..., size]` in the dictionary's dtype."""
        normalised = NORMS[self.normalise](self.flat(value).to(self.encoder.dtype))[0]
        return self.activation((normalised - self.decoder_bias if self.centred else normalised) @ self.encoder)

    def decode(self, features: Tensor, value: Tensor) -> Tensor:
        """What the features say, `[..., d_out]`; `value` is what they were read off, whose scale (and skip) it takes."""
        flat = self.flat(value).to(self.encoder.dtype)
        scaled = features if self.feature_scale is None else features * self.feature_scale
        made = scaled @ self.decoder + self.decoder_bias
        made = made if self.place.transcodes else NORMS[self.normalise](flat)[1](made)
        return made if self.skip is None else made + flat @ self.skip.T

    def flat(self, value: Tensor) -> Tensor:
        """A value with its heads side by side, where the dictionary was trained on them so.

        Raises:
            LayoutError: the value is not as wide as what the dictionary reads.
        """
        if value.shape[-1] == self.d_in:
            return value
        if value.ndim > 3 and value.shape[-1] * value.shape[-2] == self.d_in:
            return value.flatten(-2)
        raise LayoutError(f"{self.name} reads {self.d_in} numbers a token, the value is {list(value.shape)}")

    # -- in a model ------------------------------------------------------------------------------------------------

    def read(self, model: Any, at: str | tuple[str, str] | None = None) -> Code:
        """Inside a run: read the features here; `.features` may be edited, `.write()` puts them back (see `splicing`).

        `model` is the model or the run; `at` a value's name, or two of a transcoder, instead of where it was trained.
        """
        from nnatlas.dictionaries.splicing import read

        return read(self, model, at)

    def splice(self, model: StandardizedTransformer, edit: Any = None, *, error: bool = True, at: Any = None) -> Splice:
        """A context manager: every forward of the model goes through the dictionary (see `splicing.Splice`)."""
        from nnatlas.dictionaries.splicing import Splice

        return Splice(self, model, edit, error=error, at=at)

    def features(
        self, model: StandardizedTransformer, prompt: Any, *, at: Any = None, **keywords: Any
    ) -> FeatureActivations:
        """The features of a prompt or several: `batch seq features`, which show themselves (see `features`)."""
        from nnatlas.dictionaries.features import feature_activations

        return feature_activations(self, model, prompt, at=at, **keywords)


def _as_is(x: Tensor) -> tuple[Tensor, Back]:
    return x, lambda y: y


def _constant_norm(x: Tensor) -> tuple[Tensor, Back]:
    """Every token scaled to a length of sqrt(d_in)."""
    scale = x.shape[-1] ** 0.5 / x.norm(dim=-1, keepdim=True)
    return x * scale, lambda y: y / scale


def _layer_norm(x: Tensor) -> tuple[Tensor, Back]:
    """Every token to mean zero and (unbiased) standard deviation one."""
    mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return (x - mean) / (spread + LEAST), lambda y: y * spread + mean


NORMS: dict[str, Callable[[Tensor], tuple[Tensor, Back]]] = {
    "none": _as_is,
    "expected_average_only_in": _as_is,  # a constant of the training data, folded into the weights when they are saved
    "constant_norm_rescale": _constant_norm,
    "layer_norm": _layer_norm,
}
"""How inputs are scaled, and the way back, under SAELens's names."""
