"""Grids: values with named axes that show themselves in a terminal, a notebook, a web page, a picture or a DataFrame.

    grid = Grid(values, Axis("layer", map(str, range(30))), Axis("position", tokens, numbered=True), title="patching")
    grid                              # a table in a terminal, an interactive one in a notebook
    grid.html("patching.html")        # one self-contained page
    grid.png("patching.png"); grid.frame()

A leaf: it knows numbers and labels, no model.  `Pages` holds several grids side by side (heads, prompts); `Shown` gives
the same methods to any result that can say which grid it is.  Jinja2, matplotlib and pandas are imported when used.
"""

from nnatlas.grid.axis import Axis
from nnatlas.grid.grid import Grid, Pages
from nnatlas.grid.shown import Shown

__all__ = ["Axis", "Grid", "Pages", "Shown"]
