"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

import gpufleet

PACKAGE = Path(gpufleet.__file__).parent
REPOSITORY = PACKAGE.parents[1]
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE_PACKAGES = (
    "domain",
    "architecture",
    "memory",
    "performance",
    "pricing",
    "layout",
    "simulate",
    "optimize",
    "results",
    "questions",
    "answers",
)
CORE = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in CORE_PACKAGES]
PURE_LIBRARY = {
    "__future__", "abc", "bisect", "collections", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions",
    "fnmatch", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "statistics", "string",
    "types", "typing", "numpy", "typing_extensions", "gpufleet",
}  # fmt: skip
NAMELESS = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "stuff", "tools"}
CONVERSIONS = {
    1e3: "units.KB or MILLISECOND",
    1e6: "units.MB", 1e9: "units.GB or GIGA", 1e12: "units.TB or TERA",
    1e-3: "units.MILLISECOND", 1e-6: "units.MICROSECOND", 1e-9: "a unit in units.py",
    2.0**10: "units.KIB", 2.0**20: "units.MIB", 2.0**30: "units.GIB", 2.0**40: "units.TIB",
    3600: "units.HOUR", 86400: "units.DAY", 720: "units.HOURS_PER_MONTH_SEEDS", 730: "units.HOURS_PER_MONTH",
    8760: "units.HOURS_PER_YEAR",
}  # fmt: skip
UNMISTAKABLE = {2.0**30, 2.0**40, 3600, 86400, 730, 8760}
EXCUSES = ("# reference dimension", "# not a conversion")
LONGEST_FUNCTION_LINES = 50
SOLVING = (
    "optimize/mixes/program.py",
    "optimize/mixes/sending.py",
    "optimize/schedule/solver.py",
    "optimize/schedule/bound.py",
)
FILE_READERS = {
    "files.py",  # what users name
    "report/output_stream.py",
    *("catalog/calibration.py", "catalog/models.py", "api/installation.py"),  # what is shipped
    *(f"catalog/{name}.py" for name in ("kept", "snapshots", "transport", "update")),  # what gpufleet itself wrote
}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def each_package(modules: Sequence[Path]) -> pytest.MarkDecorator:
    """A test for the modules of each folder: what is wrong is told by module."""
    folders = {
        folder: [p for p in modules if p.parent == folder] for folder in dict.fromkeys(p.parent for p in modules)
    }
    return pytest.mark.parametrize("paths", folders.values(), ids=map(name_of, folders))


def told(paths: Sequence[Path], faults_of: Callable[[Path], object]) -> dict[str, object]:
    """The faults of each module that has any."""
    return {name_of(path): faults for path in paths if (faults := faults_of(path))}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def dotted(path: Path) -> str:
    """A module as it is imported: `gpufleet.cli.app`; a folder by its own name."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports_within(tree: ast.AST, folder: str, modules: Container[str]) -> set[str]:
    """Which of these modules a file of `folder` imports anywhere: in a function and for types too."""
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), folder)
            parts = (f"{origin}.{alias.name}" for alias in node.names)
            named |= {part if part in modules else origin for part in parts}
    return {name for name in named if name in modules}


def folded_number(node: ast.AST) -> float | None:
    """The value of a literal, or of a power or product of literals such as 2**30 and 1024 * 1024."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.Mult)):
        left, right = folded_number(node.left), folded_number(node.right)
        if left is None or right is None or abs(right) > 100:
            return left * right if isinstance(node.op, ast.Mult) and left and right else None
        return left**right if isinstance(node.op, ast.Pow) else left * right
    return None


def suspects(tree: ast.AST) -> Iterator[ast.expr]:
    """Factors and divisors, and numbers that mean a conversion wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            yield from (node.left, node.right)
        if isinstance(node, (ast.BinOp, ast.Constant)) and folded_number(node) in UNMISTAKABLE:
            yield node


def conversion_literals(source: str) -> list[str]:
    """Lines that convert a unit by a bare number instead of by its name in units.py."""
    lines = source.splitlines()
    return [
        f"line {node.lineno}: {ast.unparse(node)} is {CONVERSIONS[number]}"
        for node in suspects(ast.parse(source))
        if (number := folded_number(node)) in CONVERSIONS and not lines[node.lineno - 1].endswith(EXCUSES)
    ]


@pytest.mark.parametrize(
    ("source", "is_conversion"),
    [
        ("x = size / 1e9", True),
        ("x = size / 2**30", True),
        ("x = size / 1024**3", True),
        ("x = hours * 3600", True),
        ("x = price * 730", True),
        ("x = tokens * (1024 * 1024)", True),
        ("GIBIBYTE = 2**30", True),
        ("x = size / GIB", False),
        ("limit = 1024", False),
        ("x = rows / 1024  # reference dimension", False),
        ("LIMIT = 2**30  # not a conversion", False),
        ("x = 4 * width", False),
    ],
)
def test_the_search_for_conversions_finds_what_it_should(source: str, is_conversion: bool) -> None:
    assert bool(conversion_literals(source)) is is_conversion


@each_package([p for p in MODULES if p.name != "units.py"])
def test_units_are_converted_by_name(paths: list[Path]) -> None:
    assert told(paths, lambda path: conversion_literals(path.read_text(encoding="utf-8"))) == {}


@each_package(CORE)
def test_the_core_touches_no_file_network_clock_or_dice(paths: list[Path]) -> None:
    assert told(paths, foreign_modules) == {}


def foreign_modules(path: Path) -> set[str]:
    """What a module of the core imports that may touch them."""
    allowed = PURE_LIBRARY | ({"pydantic"} if "results" in path.parts else set())
    allowed |= {"importlib"} if path.name == "compiled.py" else set()  # the compiler is there or it is not
    allowed |= {"importlib", "ortools"} if name_of(path) in SOLVING else set()  # the same of the solver
    return {m for m in imported_modules(tree_of(path)) if m.partition(".")[0] not in allowed}


@cache
def calls_of(path: Path) -> set[str]:
    """What a module calls, as it is written."""
    return {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}


@each_package(CORE)
def test_the_core_asks_no_time_no_dice_and_prints_nothing(paths: list[Path]) -> None:
    forbidden = re.compile(
        r"print|open|input|exec|eval|breakpoint|.*\.(now|today|utcnow)|(np|numpy)\.random\..*|np\.load.*"
    )
    assert told(paths, lambda path: {call for call in calls_of(path) if forbidden.fullmatch(call)}) == {}


@each_package([p for p in MODULES if "report" in p.parts])
def test_reports_know_results_and_no_equation(paths: list[Path]) -> None:
    equations = {f"gpufleet.{p}" for p in CORE_PACKAGES if p not in ("results", "domain")} | {"numpy"}
    named = tuple(equations)
    assert told(paths, lambda path: [m for m in imported_modules(tree_of(path)) if m.startswith(named)]) == {}


def test_only_the_catalog_reads_the_data() -> None:
    reads_data = re.compile(r"importlib\.resources|/ [\"']data[\"']|gpufleet[./]data")
    readers = {name_of(path) for path in MODULES if reads_data.search(path.read_text(encoding="utf-8"))}
    assert {reader for reader in readers if not reader.startswith("catalog/")} == set()


def test_only_one_place_asks_what_day_it_is() -> None:
    asks = re.compile(r"\b(?:date|datetime)\.(?:today|utcnow)\(|\bdatetime\.now\(\)")
    asking = {name_of(path) for path in MODULES if asks.search(path.read_text(encoding="utf-8"))}
    assert asking == {"catalog/current_date.py"}


@each_package([p for p in MODULES if name_of(p) not in FILE_READERS])
def test_files_of_users_are_looked_up_listed_and_read_in_one_place(paths: list[Path]) -> None:
    """Elsewhere a name that is too long, a NUL or a locked folder would be a traceback."""
    raising = (
        r"open|tomllib\.loads?|(?!os\.path\.).*\.(is_file|is_dir|exists|expanduser|iterdir|r?glob|read_text|read_bytes)"
    )
    assert told(paths, lambda path: {call for call in calls_of(path) if re.fullmatch(raising, call)}) == {}


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("from gpufleet.cli.app import run", {"gpufleet.cli.app"}),
        ("from gpufleet.cli import app", {"gpufleet.cli.app"}),
        ("from gpufleet.cli import main", {"gpufleet.cli"}),
        ("from .app import run", {"gpufleet.cli.app"}),
        ("from . import app", {"gpufleet.cli.app"}),
        ("import gpufleet.cli.app as started", {"gpufleet.cli.app"}),
        ("def late():\n    from gpufleet.cli.app import run", {"gpufleet.cli.app"}),
        ("if TYPE_CHECKING:\n    from gpufleet.cli.app import run", {"gpufleet.cli.app"}),
        ("import numpy as np\nfrom collections import abc", set()),
    ],
)
def test_the_search_for_imports_finds_what_it_should(source: str, imported: set[str]) -> None:
    modules = {"gpufleet", "gpufleet.cli", "gpufleet.cli.app"}
    assert imports_within(ast.parse(source), "gpufleet.cli", modules) == imported


def test_no_modules_need_each_other_in_a_circle() -> None:
    """A circle raises CycleError, which names its modules."""
    modules = {dotted(path) for path in MODULES}
    needs = {dotted(path): imports_within(tree_of(path), dotted(path.parent), modules) for path in MODULES}
    assert set(TopologicalSorter(needs).static_order()) == set(needs)


def test_every_module_has_found_its_name() -> None:
    assert [name_of(p) for p in MODULES if {*p.with_suffix("").relative_to(PACKAGE).parts} & NAMELESS] == []


def test_every_folder_with_python_is_a_package() -> None:
    assert [name_of(p.parent) for p in MODULES if not (p.parent / "__init__.py").exists()] == []


@each_package(MODULES)
def test_functions_are_short(paths: list[Path]) -> None:
    assert told(paths, long_functions) == {}


def long_functions(path: Path) -> dict[str, int]:
    """Functions of a module that are too long, and how long."""
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {f.name: lines for f in functions if (lines := body_lines(f)) > LONGEST_FUNCTION_LINES}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of what a function does: parameters stand one to a line, and a formula may be explained at length."""
    said = function.body[1:] if ast.get_docstring(function) else function.body
    return (said[-1].end_lineno or 0) - said[0].lineno + 1 if said else 0


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(a, b): return a", 1),
        ("def f(\n    a,\n    b,\n):\n    c = a\n    # why\n    return c", 3),
        ('def f(a):\n    """One.\n\n    More.\n    """\n    b = a\n    return b', 2),
        ('def f(a):\n    """All that there is."""', 0),
        ("def f():\n    async def g(\n        a,\n    ):\n        return a\n    return g", 5),
    ],
)
def test_the_length_of_a_function_is_that_of_its_body(source: str, lines: int) -> None:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function) == lines


@each_package(MODULES)
def test_what_is_public_is_explained(paths: list[Path]) -> None:
    assert told(paths, unexplained) == {}


def unexplained(path: Path) -> list[str]:
    """What is public of a module, itself included, and has no docstring."""
    tree = tree_of(path)
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n in public_nodes(tree)]
    return [*([] if ast.get_docstring(tree) else ["the module"]), *(n.name for n in nodes if not ast.get_docstring(n))]


def public_nodes(tree: ast.Module) -> list[ast.AST]:
    """Functions and classes at the top of a module, and public methods of public classes."""
    top = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]
    classes = [n for n in top if isinstance(n, ast.ClassDef)]
    methods = [m for c in classes for m in c.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_")]
    return [*top, *methods]


def test_public_names_are_sorted_and_exist() -> None:
    names = getattr(gpufleet, "__all__", [])
    assert names == sorted(names)
    assert [name for name in names if not hasattr(gpufleet, name)] == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'pydantic', 'yaml', 'typer', 'rich', 'jinja2'}"
    code = f"import gpufleet, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", [p for p in REPOSITORY.glob("**/*.md") if ".venv" not in p.parts], ids=lambda p: p.name
)
def test_documents_speak_of_no_ones_machine(path: Path) -> None:
    assert not re.search(r"(?<![\w.])/(home|root|work|Users|tmp/dev)/", path.read_text(encoding="utf-8"))
