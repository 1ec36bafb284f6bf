"""Serving a built site to this machine's browser."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Quiet(SimpleHTTPRequestHandler):
    """Says nothing of each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name it has in http.server
        pass


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder on this machine alone; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))


def serve(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C."""
    with server(folder, port) as made:
        say(f"http://{made.server_address[0]!s}:{made.server_address[1]}/ serves {folder}; Ctrl-C ends it")
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            say("ended")
