"""`nnatlas encyclopedia` and `nnatlas page` as they are typed."""

from __future__ import annotations

import threading
import urllib.request

import pytest
from typer.testing import CliRunner

from nnatlas.cli import build as application
from nnatlas.encyclopedia import renewing
from nnatlas.encyclopedia.serving import server
from nnatlas.errors import InputError


def run(*words: str) -> str:
    done = CliRunner().invoke(application(), list(words), catch_exceptions=False, standalone_mode=False)
    return done.output


def test_building_some_families(tmp_path):
    said = run("encyclopedia", "build", "--out", str(tmp_path / "site"), "llama", "gpt2")
    assert "2 pages in" in said and (tmp_path / "site" / "family" / "llama.html").is_file()


def test_an_unknown_family_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no page for 'lama'"):
        run("encyclopedia", "build", "--out", str(tmp_path), "lama")


def test_serving_needs_a_site(tmp_path):
    with pytest.raises(InputError, match=r"nnatlas encyclopedia build --out"):
        run("encyclopedia", "serve", "--out", str(tmp_path))


def test_a_served_site_is_the_folder(tmp_path):
    (tmp_path / "index.html").write_text("<p>here")
    made = server(tmp_path, 0)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{made.server_address[1]}/") as answer:
        assert answer.read() == b"<p>here"
    made.shutdown()
    made.server_close()


def test_renewing_one_outline(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(
        renewing, "renew", lambda names, processes: iter([(name, kept.append(name) or "") for name in names])
    )
    assert run("encyclopedia", "outline", "llama") == "llama: done\n" and kept == ["llama"]
    monkeypatch.setattr(renewing, "renew", lambda names, processes: iter([(name, "it broke") for name in names]))
    with pytest.raises(InputError, match="1 of 1 outlines could not be made: llama"):
        run("encyclopedia", "outline", "llama")


def test_a_page_of_ones_own(tmp_path):
    out = tmp_path / "page.html"
    said = run("page", "tiny:llama", "--out", str(out), "--text", "a few words to run it on")
    assert f"{out}: " in said
    text = out.read_text(encoding="utf-8")
    assert "Measured on these weights" in text and "a few words to run it on" in text and "<style>" in text
    with pytest.raises(InputError, match="cannot write"):
        run("page", "tiny:llama", "--out", str(tmp_path / "nowhere" / "page.html"))
