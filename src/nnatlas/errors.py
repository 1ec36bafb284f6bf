"""Every error that nnatlas raises on purpose.

    AtlasError
    ├── UnsupportedFamily     the model's type has no row and none could be proven
    ├── RowDoesNotFit         a family row names what the live model does not have
    ├── PlaceError            a cell of a row cannot be read; quotes file, cell and the fault
    ├── Unavailable           a value this family, block or load does not have (also an AttributeError)
    ├── NotInRun              a value asked for outside a run, or from another thread (also an AttributeError)
    ├── AlreadyRan            the forward has passed the place that was asked for
    ├── NeverReached          the forward ended without coming to the place
    ├── ReadOnly              an edit that cannot reach the model
    ├── LayoutError           a tensor, head or expert that does not fit the value's layout
    ├── InputError            a prompt or keyword that cannot be run
    ├── LawBroken             a model fails a law that its row promised
    ├── DownloadFailed        a named checkpoint that could not be fetched
    └── DamagedFile           a download or checkpoint that is not what it should be

Each says what was asked, what there is, and what to type.  `Unavailable` and `NotInRun` are AttributeErrors too, so
that `hasattr(block, "attention_norm_output")` answers False instead of raising.
"""

from __future__ import annotations


class AtlasError(Exception):
    """Base of everything nnatlas raises on purpose; catch it to catch them all."""


class UnsupportedFamily(AtlasError):
    """No row covers this model type, and its structure could not be proven."""


class RowDoesNotFit(AtlasError):
    """A family row and the live model disagree: a module, width or config field is not what the row says."""


class PlaceError(AtlasError):
    """A cell in a family row is not in the place language."""


class Unavailable(AtlasError, AttributeError):
    """This model has no such value; `reason` is the row's own, the message says it in full."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class NotInRun(AtlasError, AttributeError):
    """A value exists only while a run is open: `with model.trace(prompt): ...`."""


class AlreadyRan(AtlasError):
    """The forward is past the place asked for; values come in the order in which they are computed."""


class NeverReached(AtlasError):
    """The forward ended, or this step of it, without computing the value asked for."""


class ReadOnly(AtlasError):
    """An edit that could not change what the model computes."""


class LayoutError(AtlasError):
    """Shape, head or expert index outside a value's layout."""


class InputError(AtlasError):
    """A prompt, batch or keyword that cannot be run as it stands."""


class LawBroken(AtlasError):
    """A bound model fails one of the laws (see `nnatlas.check`)."""


class DownloadFailed(AtlasError):
    """A named checkpoint could not be fetched; the message says how to bring it by hand."""


class DamagedFile(AtlasError):
    """A file is incomplete or not the one that was pinned; it was not loaded."""
