"""`python -m tools.stub`: what type checkers read of the public names, written from the table of questions."""

from __future__ import annotations

from pathlib import Path

from gpufleet.table import HOMES

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "gpufleet"
MADE = "# made from the table of questions: python -m tools.stub"


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    names = "\n".join(["__all__ = [", *(f'    "{name}",' for name in sorted(HOMES)), "]"])
    imports = sorted(f"from gpufleet.{home} import {name} as {name}" for name, home in HOMES.items())
    text = "\n".join([MADE, *imports, "", names, ""])
    return {PACKAGE / "__init__.pyi": text, PACKAGE / "api" / "__init__.pyi": text}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
