"""`python -m nnatlas.cli` is the `nnatlas` command."""

from nnatlas.cli import main

main()
