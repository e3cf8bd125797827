"""The table of commands: `commands.txt`, whose first lines say how it is written."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]
TABLE = FOLDER / "commands.txt"
PLACES = {
    "FILES": FOLDER / "files",
    "EXAMPLES": REPOSITORY / "examples",
    "FORMER": REPOSITORY / "tests" / "contracts" / "former",
    "SEED": REPOSITORY / "gpu-migration-analyzer" / "config",
}
MADE = "MADE"
ASSIGNED = re.compile(r"_?[A-Z][A-Z_]*=")


@dataclass(frozen=True)
class Command:
    """One line of the table: `said` is what stands there, with places such as $FILES not yet put in."""

    name: str
    said: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that are assigned before the words."""
        return dict(each.split("=", 1) for each in self._parts if ASSIGNED.match(each))

    @property
    def words(self) -> list[str]:
        """What stands behind `gpufleet`."""
        return [each for each in self._parts if not ASSIGNED.match(each)]

    @property
    def is_help(self) -> bool:
        """Whether the answer is text that no figure is in."""
        return "--help" in self.words or self.words[:1] == ["help"]

    @property
    def _parts(self) -> list[str]:
        return shlex.split(re.sub(rf"\$({'|'.join([*PLACES, MADE])})\b", lambda found: found[1].lower(), self.said))


def commands(table: str | None = None) -> dict[str, Command]:
    """The commands by their names, in the order in which they run."""
    lines = (TABLE.read_text(encoding="utf-8") if table is None else table).splitlines()
    parts = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    found = [Command(name, "".join(said).strip()) for name, *said in parts]
    twice = sorted({each.name for each in found if sum(other.name == each.name for other in found) > 1})
    if twice:
        raise ValueError(f"names of two commands: {', '.join(twice)}")
    return {each.name: each for each in found}
