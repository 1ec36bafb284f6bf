"""Where a family row meets a live module: roles found, kinds told apart, sizes read, cells turned into points.

This is the only place where the two meet, and it refuses, by name, a row that does not fit.
"""

from nnatlas.bind.codec import Codec
from nnatlas.bind.points import Point
from nnatlas.bind.tree import BoundModel, Host, bind

__all__ = ["BoundModel", "Codec", "Host", "Point", "bind"]
