"""Write constraints.txt: the newest versions that install together today, on every Python that is supported.

    python tools/constraints.py python3.10 python3.11 ...

`make` installs them, so that what was tested is what runs. pip of each Python resolves what it needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CONSTRAINTS = REPOSITORY / "constraints.txt"
WHAT = ".[dev,refresh,docs,simulate,solve,mcp,web]"
RESOLVE = ("-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:", "--report", "-")
HEADING = "# Versions that 'make' installs, tested together; 'make constraints' writes the newest."
Versions = Mapping[str, str]


def resolved(python: str) -> tuple[str, Versions]:
    """A Python as 3.10, and the version of each package that pip would install on it."""
    done = subprocess.run([python, *RESOLVE, WHAT], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)
    packages = [item["metadata"] for item in report["install"] if "dir_info" not in item["download_info"]]
    return report["environment"]["python_version"], {
        package["name"].lower(): package["version"] for package in packages
    }


def lines(found: Mapping[str, Versions]) -> Iterator[str]:
    """A line for each version of each package, the Pythons in ascending order.

    >>> list(lines({"3.10": {"a": "1", "b": "1"}, "3.11": {"a": "1", "b": "2"}, "3.12": {"b": "2"}}))
    ['a==1', 'b==1; python_version < "3.11"', 'b==2; python_version >= "3.11"']
    """
    for name in sorted({name for versions in found.values() for name in versions}):
        versions = {python: of[name] for python, of in found.items() if name in of}
        starts = [
            python for before, python in pairwise(["", *versions]) if not before or versions[before] != versions[python]
        ]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            since = f'python_version >= "{start}"' if start != starts[0] else ""
            until = f'python_version < "{end}"' if end else ""
            marker = " and ".join(filter(None, (since, until)))
            yield f"{name}=={versions[start]}" + (f"; {marker}" if marker else "")


if __name__ == "__main__":
    CONSTRAINTS.write_text("\n".join([HEADING, *lines(dict(map(resolved, sys.argv[1:]))), ""]), encoding="utf-8")
