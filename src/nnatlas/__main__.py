"""`python -m nnatlas` is the command `nnatlas`, also where no script is on the path."""

from __future__ import annotations

from nnatlas.cli import main

if __name__ == "__main__":
    main()
