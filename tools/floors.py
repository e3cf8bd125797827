"""The lowest versions that pyproject.toml allows on this Python, as constraints: `make test-lowest` runs on them.

python tools/floors.py > lowest.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = ("test", "refresh", "simulate", "solve", "web")


def requirements(*extras: str) -> list[Requirement]:
    """What gpufleet needs, and what these extras add to it."""
    project: dict[str, Any] = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    added = project["optional-dependencies"]
    named = [Requirement(line) for line in (*project["dependencies"], *(line for key in extras for line in added[key]))]
    return [requirement for requirement in named if requirement.name != project["name"]]


def floors(needed: Iterable[Requirement]) -> Iterator[str]:
    """A line for each requirement that holds on this Python.

    >>> list(floors([Requirement("numpy>=1.26"), Requirement("tomli>=2; python_version < '3'")]))
    ['numpy==1.26']
    """
    for requirement in needed:
        if requirement.marker is None or requirement.marker.evaluate():
            yield f"{requirement.name}=={floor(requirement)}"


def floor(requirement: Requirement) -> str:
    """The lowest version of a requirement."""
    (lowest,) = (part.version for part in requirement.specifier if part.operator == ">=")
    return lowest


if __name__ == "__main__":
    print(*dict.fromkeys(floors(requirements(*EXTRAS))), sep="\n")
