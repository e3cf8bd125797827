"""The page of equations: every public function of the model that shows a real number, as its docstring has it.

    python -m tools.equations_page > equations.md

An equation is a public function whose docstring ends with a doctest; what stands between that and its sentence is the
formula with its units and source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "gpufleet"
CHAPTERS = {
    "architecture": "Counts of a model",
    "memory": "Memory",
    "performance": "Time",
    "pricing": "Money",
}
HEAD = """\
# Equations

Generated from the docstrings of the functions that compute them: the sentence, the formula with its units and source,
and one real number that a test recomputes.
"""


class Equation(NamedTuple):
    """A function that computes a number of the model: its docstring in three parts."""

    name: str
    sentence: str
    formula: str
    doctest: str


def equations_page() -> str:
    """The page in Markdown: a chapter per part of the model, a section per module."""
    chapters = [f"## {title}\n\n{chapter(folder)}" for folder, title in CHAPTERS.items()]
    return "\n".join([HEAD, *chapters])


def chapter(folder: str) -> str:
    """All equations of one folder."""
    sections = [section(path) for path in sorted((PACKAGE / folder).glob("*.py"))]
    return "\n".join(text for text in sections if text)


def section(path: Path) -> str:
    """The equations of one module under what it says of itself; nothing when it has none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [shown(equation) for equation in equations_in(tree)]
    if not found:
        return ""
    title = (ast.get_docstring(tree) or path.stem).splitlines()[0].rstrip(".")
    return "\n".join([f"### {title}\n", *found])


def equations_in(tree: ast.Module) -> Iterator[Equation]:
    """Public functions of a module whose docstring ends with a doctest."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            sentence, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            formula, mark, doctest = rest.partition(">>> ")
            if mark:
                yield Equation(node.name, " ".join(sentence.split()), formula.strip(), mark + doctest.strip())


def shown(equation: Equation) -> str:
    """One equation in Markdown."""
    formula = ["```text", equation.formula, "```", ""] if equation.formula else []
    parts = [f"#### {equation.name}", "", equation.sentence, "", *formula]
    return "\n".join([*parts, "```python", equation.doctest, "```", ""])


if __name__ == "__main__":
    print(equations_page())
