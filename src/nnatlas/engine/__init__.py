"""The engine: a forward that waits in a greenlet while the body of `with model.trace(...)` runs as ordinary code.

Reading a value puts a tap on its module, lets the forward run until the tap stops it there, and hands back the live tensor;
leaving the block lets the rest run.  The engine knows points, not families; how to stop inside an attention call or at a
torch function is added by `nnatlas.interior` through `taps.INSTALLERS`.
"""

from nnatlas.engine.run import Run, current_run
from nnatlas.engine.steps import Generation

__all__ = ["Generation", "Run", "current_run"]
