"""The laws of nnatlas, runnable on anyone's model.

    report = nnatlas.check("tiny:llama")     # or a loaded model, a Hub id, a folder, a module
    print(report)                            # each law, each value, and what is broken

`registry` lists the laws; one small file holds each; `trial` is the model they look at.  `sweep` runs them on many types.
"""

from nnatlas._callable import make_callable
from nnatlas.check.checking import check
from nnatlas.check.findings import Finding
from nnatlas.check.registry import SENTENCES
from nnatlas.check.report import Measured, Report
from nnatlas.check.sweeping import read_sweep, sweep
from nnatlas.check.swept import Sweep

__all__ = ["SENTENCES", "Finding", "Measured", "Report", "Sweep", "check", "read_sweep", "sweep"]

make_callable(__name__, check)
