"""`python -m tools.stub`: what type checkers read of the public names, and the table of docs/python.md.

Both are written from the table of questions.

A function that takes the words of its question as `**said` is shown with each word by name: as the field of its
request, and as its option where that may stand in Python.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from gpufleet.api.spoken import field_names, parts_of, subject_of, types_of
from gpufleet.cli.orientation import first_clause
from gpufleet.questions.words import Request, words_of
from gpufleet.table import HOMES, QUESTIONS, Question, resolved

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE, PAGE = REPOSITORY / "src" / "gpufleet", REPOSITORY / "docs" / "python.md"
BEGIN, END = "<!-- made from the table of questions: python -m tools.stub -->", "<!-- end of what is made -->"
MADE = "# made from the table of questions: python -m tools.stub"
BUILTIN = ("builtins", "types")
Places = dict[str, set[str]]


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    shown = {question.function: question for question in QUESTIONS if question.request}
    names = "\n".join(["__all__ = [", *(f'    "{name}",' for name in sorted(HOMES)), "]"])
    places: Places = defaultdict(set)
    functions = [shown_function(question, places) for question in shown.values()]
    homes = {name: f"gpufleet.{home}" for name, home in HOMES.items() if name not in shown}
    used = sorted(
        f"from {module} import {name}" for module, found in places.items() for name in found if name not in homes
    )
    public = sorted(f"from {home} import {name} as {name}" for name, home in homes.items())
    again = sorted(f"from gpufleet import {name} as {name}" for name in HOMES)
    return {
        PACKAGE / "__init__.pyi": "\n".join([MADE, *used, *public, "", names, "", *functions, ""]),
        PACKAGE / "api" / "__init__.pyi": "\n".join([MADE, *again, "", names, ""]),
    }


def page() -> str:
    """The page of Python's functions with its table as it is."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rows = ["| function | answers | needs | asked by |", "| --- | --- | --- | --- |", *map(row_of, QUESTIONS)]
    return "\n".join([f"{before}{BEGIN}", *rows, f"{END}{rest.partition(END)[2]}"])


def row_of(question: Question) -> str:
    """A question as a row of the page."""
    function = resolved(f"{question.home}:{question.function}")
    taken = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    stated = inspect.signature(function).parameters.values()
    needed = [p.name for p in stated if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    request = resolved(question.request) if question.request else None
    held = [] if request is None else [f for f in fields(request) if f.name in field_names(request)]
    needed += [f.name for f in held if f.default is MISSING and f.default_factory is MISSING and f.name not in taken]
    subject = subject_of(request) if request is not None else ""
    words = ", ".join(f"`{subject if name == 'request' and subject else name}`" for name in needed)
    answers = first_clause(function.__doc__).replace("|", "\\|")
    return f"| `{question.function}` | {answers} | {words} | `gpufleet {question.verb}` |"


def shown_function(question: Question, places: Places) -> str:
    """A function as it is called; `places` learns where the types are that it names."""
    module = f"gpufleet.{question.home}"
    signature = inspect.signature(resolved(f"{question.home}:{question.function}"))
    taken = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for annotation in (*(p.annotation for p in taken), signature.return_annotation):
        add_places(annotation, module, places)
    alone = [p for p in taken if p.kind is p.KEYWORD_ONLY]
    lines = [f"    {shown_parameter(p)}," for p in taken if p not in alone]
    lines += ["    *,", *(f"    {shown_parameter(p)}," for p in alone)]
    request: type[Request] = resolved(question.request)
    lines += [f"    {name}: {hint} = ...," for name, hint in said(request, {p.name for p in taken}, places)]
    return "\n".join([f"def {question.function}(", *lines, f") -> {signature.return_annotation}: ..."])


def shown_parameter(parameter: inspect.Parameter) -> str:
    """A parameter that the function names itself."""
    default = "" if parameter.default is parameter.empty else " = ..."
    return f"{parameter.name}: {parameter.annotation}{default}"


def said(request: type[Request], taken: Collection[str], places: Places) -> Iterator[tuple[str, str]]:
    """The words of a request by name, with what each may be; text is read as its option reads it."""
    options = {row.field: row for row in words_of(request).values() if row.field}
    known = field_names(request)
    for field in known:
        row, parts = options.get(field), set(parts_of(types_of(request)[field]))
        parts |= {str} if row is not None and row.kind.takes is not bool else set()
        hint = " | ".join(sorted({shown_type(part, places) for part in parts}, key=lambda name: (name == "None", name)))
        by_option = [row.name] if row is not None and row.name not in known else []
        yield from ((name, hint) for name in (field, *by_option) if name not in taken and not keyword.iskeyword(name))


def shown_type(hint: Any, places: Places) -> str:
    """A type as it is written."""
    if hint is NoneType:
        return "None"
    kind = get_origin(hint) or hint
    if kind.__module__ not in BUILTIN:
        places[kind.__module__].add(kind.__name__)
    inner = [shown_type(part, places) for part in get_args(hint)]
    return f"{kind.__name__}[{', '.join(inner)}]" if inner else str(kind.__name__)


def add_places(annotation: str, module: str, places: Places) -> None:
    """Where the names of an annotation come from in the module that says it."""
    for node in ast.walk(ast.parse(annotation)):
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            place = imported_in(module).get(node.id, module)
            found = getattr(import_module(place), node.id, None)
            places[found.__module__ if inspect.isclass(found) else place].add(node.id)


@cache
def imported_in(module: str) -> dict[str, str]:
    """Where each name comes from that a module imports, for types alone too."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.asname or alias.name: str(node.module) for node in found for alias in node.names}


if __name__ == "__main__":
    for path, text in {**stubs(), PAGE: page()}.items():
        path.write_text(text, encoding="utf-8")
