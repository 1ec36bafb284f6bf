"""Laws of the code itself: who imports whom, where a family may be named, how long things are, what importing costs."""

from __future__ import annotations

import ast
import inspect
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.fresh import seconds_for
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

import nnatlas
from nnatlas import families
from nnatlas.families import _numbers

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "nnatlas"
MODULES = sorted(SRC.rglob("*.py"))

# --- the chain of imports -------------------------------------------------------------------------------------------

# Left to right: a module may import from groups before its own.  Members of one group never import each other, except
# the first group's, which describe one thing together.
CHAIN = [
    {"values", "layouts"},
    {"places"},
    {"families"},
    {"bind", "kin", "traits"},
    {"engine"},
    {"interior"},
    {"model"},
    {"readouts", "edits", "patching", "dictionaries", "vision", "harvest"},
    {"check"},
    {"guess"},  # a guessed row is handed out only once check has proven it
    {"encyclopedia"},
    {"cli"},
    {"__main__"},
]
LEAVES = {"errors", "show", "grid", "tiny", "pull", "apex", "_callable", "_record"}
# A method that opens the door to what stands further right; it imports when it is called, never at the top.
DOORS = {("model", "check"), ("model", "guess")}
FROM_ALL = {"errors", "show", "_callable"}
FACTS = {"values", "layouts", "places", "families"}
# huggingface_hub: the `strict` dataclass of every config in transformers
APEX_MAY_USE = {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub"}


def top(module: str) -> str:
    """`nnatlas.engine.run` -> `engine`; the package itself -> the empty string."""
    return [*module.split("."), ""][1]


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Every (statement, dotted module) that a file imports, at its top or inside a function."""
    package = dotted(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from nnatlas import errors` imports nnatlas.errors, `from . import fields` the neighbour
            yield from ((node, f"{module}.{alias.name}" if module == "nnatlas" else module) for alias in node.names)


def allowed(importer: str) -> set[str]:
    """The groups that `importer` may import from, itself included."""
    if importer in LEAVES:
        return FROM_ALL | {importer}
    rank = next((i for i, group in enumerate(CHAIN) if importer in group), None)
    assert rank is not None, f"src/nnatlas/{importer} has no place in the chain of imports; give it one in {__file__}"
    own = CHAIN[rank] if rank == 0 else {importer}
    return set().union(*CHAIN[:rank]) | own | LEAVES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: dotted(path))
def test_imports_follow_the_chain(path):
    importer = top(dotted(path))
    if importer == "":
        pytest.skip("the package's own page names everything, lazily")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {module}"
        for node, module in imports(path)
        if module.split(".")[0] == "nnatlas"
        and top(module) not in allowed(importer)
        # the outermost layers may use the public page as its readers do
        and not (importer in {"cli", "__main__"} and top(module) in (*nnatlas.__all__, ""))
        and not ((importer, top(module)) in DOORS and node.col_offset > 0)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [p for p in MODULES if top(dotted(p)) in FACTS], ids=lambda path: dotted(path))
def test_facts_need_only_the_standard_library(path):
    used = {module.split(".")[0] for _, module in imports(path)} - {"nnatlas"}
    assert used <= sys.stdlib_module_names


@pytest.mark.parametrize("path", [p for p in MODULES if top(dotted(p)) == "apex"], ids=lambda path: dotted(path))
def test_apex_stands_by_itself(path):
    used = {module.split(".")[0] for _, module in imports(path)} - {"nnatlas"}
    assert used <= sys.stdlib_module_names | APEX_MAY_USE


def test_the_walk_sees_every_form_of_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SRC", tmp_path / "nnatlas")
    path = tmp_path / "nnatlas" / "engine" / "run.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import torch.nn\nfrom nnatlas import model, errors\nfrom .. import bind\nfrom ..interior import a\n"
        "from .taps import b\ndef f():\n    from nnatlas.cli.show import c\n"
    )
    found = [module for _, module in imports(path)]
    inside = [f"nnatlas.{name}" for name in ("model", "errors", "bind", "interior", "engine.taps", "cli.show")]
    assert found == ["torch.nn", *inside]
    assert [top(module) for module in inside if top(module) not in allowed("engine")] == ["model", "interior", "cli"]


# --- facts are data: families are named in families/ only -----------------------------------------------------------

MODEL_TYPES = set(CONFIG_MAPPING_NAMES)
# Types that are also words of our trade or of everyday English; as such they may be written anywhere.
WORDS = {
    "align", "beam", "bit", "canary", "chameleon", "clip", "encoder-decoder", "flint", "funnel", "git", "informer",
    "led", "perceiver", "radio", "rag", "reformer", "splinter", "vision-encoder-decoder", "whisper",
}  # fmt: skip
# Inside a sentence or an identifier, only names too odd to be there by chance count: not `opt` and `phi`, but `gptj`.
ODD = {name for name in MODEL_TYPES - WORDS if len(name) > 4 or re.search(r"\w\d|gptj|rwkv", name)}
BY_LENGTH = sorted(ODD, key=len, reverse=True)
IN_A_SENTENCE = re.compile(rf"(?<![\w:])({'|'.join(map(re.escape, BY_LENGTH))})(?!\w)", re.IGNORECASE)
NAMES_FAMILIES = {"families", "apex"}


def docstrings(module: ast.Module) -> set[int]:
    statements = (node for node in ast.walk(module) if isinstance(node, ast.Expr))
    return {id(node.value) for node in statements if isinstance(node.value, ast.Constant)}


def names_in(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, family name) for every string and identifier that names one.  Docstrings and comments are prose, and free;
    `tiny:<type>` is the name of a model, not a fact about a family."""
    prose = docstrings(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if node.value in MODEL_TYPES - WORDS:
                yield node.lineno, node.value
            else:
                yield from ((node.lineno, match[1]) for match in IN_A_SENTENCE.finditer(node.value))
        for field in ("id", "attr", "name", "arg"):
            parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", str(getattr(node, field, None) or ""))
            yield from ((getattr(node, "lineno", 0), part) for part in parts if part.lower() in ODD)


@pytest.mark.parametrize(
    "path", [p for p in MODULES if top(dotted(p)) not in NAMES_FAMILIES], ids=lambda path: dotted(path)
)
def test_no_family_is_named_outside_families(path):
    found = [f"{path.relative_to(ROOT)}:{line} names {name}" for line, name in names_in(tree(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code, names",
    [
        ('if config.model_type == "llama": pass', ["llama"]),
        ('x = {"gpt2", "phi"}', ["gpt2", "phi"]),
        ("isinstance(m, LlamaAttention)", ["Llama"]),
        ("def is_falcon(m): pass", ["falcon"]),
        ('raise E(f"only on qwen3 or {x}")', ["qwen3"]),
        ('"""Falcon overwrites it."""\n# Falcon does\nload("tiny:apertus")', []),
        ('clip = "clip"; phi = 1; s = "opt in"', []),
    ],
)
def test_the_family_walk_finds_what_it_should(code, names):
    assert sorted(name for _, name in names_in(ast.parse(code))) == sorted(names)


# --- sizes ----------------------------------------------------------------------------------------------------------


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(where, lines of the body without the docstring) of every function of a file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            start = node.body[0].end_lineno + 1 if documented else node.body[0].lineno
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", max(0, node.end_lineno - start + 1)


def test_no_file_and_no_function_is_long():
    files = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in files.items() if lines > 400} == {}
    assert {where: lines for path in MODULES for where, lines in functions(path) if lines > 50} == {}


def test_most_files_and_functions_are_short():
    assert statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES) <= 120
    lengths = sorted(lines for path in MODULES for _, lines in functions(path))
    assert statistics.median(lengths) <= 6
    assert lengths[int(len(lengths) * 0.9)] <= 25


# --- the public page ------------------------------------------------------------------------------------------------


def test_the_public_names_are_exactly_these():
    errors = {name for name, value in vars(nnatlas.errors).items() if inspect.isclass(value)}
    lazy = {"StandardizedTransformer", "check", "load", "pull"}
    experiments = {"apex", "dictionaries", "edits", "patching", "readouts", "vision"}
    assert set(nnatlas.__all__) == errors | lazy | experiments | {"__version__"}
    assert nnatlas.__all__ == sorted(nnatlas.__all__)
    assert set(nnatlas.__all__) <= set(dir(nnatlas))


@pytest.mark.parametrize("name, home", sorted(nnatlas._LIVES_IN.items()))
def test_every_lazy_name_resolves(name, home):
    found = getattr(nnatlas, name)
    assert inspect.ismodule(found) if home == f"nnatlas.{name}" else callable(found)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match=r"no attribute 'lod'.*StandardizedTransformer.*load"):
        nnatlas.lod


def test_importing_is_quick_and_without_torch():
    assert seconds_for("import nnatlas") < 0.1


def test_all_facts_load_quickly_and_without_torch():
    assert seconds_for("from nnatlas import families, layouts, places, values; families.rows()") < 0.05


# --- nothing of the place where it was written ----------------------------------------------------------------------

FOREIGN = re.compile(
    r"(?<![\w.:-])/(?:home|root|Users|opt|mnt|work)/\w"  # a path of one machine
    r"|pypi\.org|pythonhosted\.org|npmjs\.org|deb\.debian\.org|proxy\.golang\.org"  # a registry: pip knows its own
)


def committed_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # an unpacked source archive
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_machine_and_no_registry_is_named():
    found = []
    for path in committed_files():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in FOREIGN.finditer(text)]
    assert not found, "\n".join(found)
    assert FOREIGN.search("see /ho" + "me/ann")
    assert not FOREIGN.search("https://a.b/home/ann")


def test_nothing_that_git_ignores_is_committed():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("an unpacked source archive")
    assert listed.stdout.split() == []


# --- versions ---------------------------------------------------------------------------------------------------------


def test_what_is_promised_is_what_make_versions_runs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (floor,) = re.findall(r"transformers>=([\d.]+),<6", " ".join(project["dependencies"]))
    assert f"TRANSFORMERS='transformers=={floor}.0'" in makefile.partition("\nversions:")[2]
    promised = [said.rpartition(" ")[2] for said in project["classifiers"] if "Python :: 3." in said]
    assert promised[0] == project["requires-python"].removeprefix(">=")
    assert re.findall(r"PYTHON=python([\d.]+)", makefile.partition("\nversions:")[2]) == promised[1:]
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"transformers {floor}" in text and promised[-1] in text
    assert all(re.fullmatch(r"\d+\.\d+(\.\d+)?", release) for release in families.SINCE.values())
    assert all(_numbers(release) > _numbers(floor) for release in families.SINCE.values()), "the floor has them all"
