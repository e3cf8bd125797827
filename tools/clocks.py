"""Run the tests that may know what day it is under other clocks: they pass on every day and everywhere.

    python tools/clocks.py                      the tests of TESTS under every clock
    python tools/clocks.py tests/catalog -x     what pytest is told instead

The wall clock is moved for the tests and all that they start by a library in front of C's own (tools/clock_shift.c).
Other clocks run on, so that nobody waits longer.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

REPOSITORY = Path(__file__).resolve().parents[1]
LIBRARY_SOURCE = REPOSITORY / "tools" / "clock_shift.c"
TESTS = (
    "tests/contracts", "tests/catalog", "tests/hostile", "tests/unit/api", "tests/unit/report",
    "--numprocesses", "auto", "--dist", "loadfile",
)  # fmt: skip
MISSING = (
    "The clocks were not shifted: that takes Linux, a C compiler called cc and a Python that loads C's library. "
    "On Debian or Ubuntu: apt-get install gcc libc6-dev."
)


@dataclass(frozen=True)
class Clock:
    """A clock: so many days later than now, or at a moment of its place."""

    name: str
    zone: str = "UTC"
    later_days: int = 0
    at: str | None = None

    def moment(self, now: datetime) -> datetime:
        """What it shows when the tests begin."""
        if self.at is None:
            return now.astimezone(ZoneInfo(self.zone)) + timedelta(days=self.later_days)
        return datetime.fromisoformat(self.at).replace(tzinfo=ZoneInfo(self.zone))


CLOCKS = (
    Clock("a day later", later_days=1),
    Clock("a year later", later_days=365),
    Clock("29 February", at="2028-02-29T12:00"),
    Clock("just before summer time begins", "Europe/Berlin", at="2027-03-28T01:59:30"),
    Clock("a day ahead of UTC", "Pacific/Apia", at="2027-01-05T00:30"),
)


def main(words: Sequence[str]) -> int:
    """Run the tests under each clock; 1 when any fails, 0 when none can be shifted here."""
    with tempfile.TemporaryDirectory() as folder:
        library = built_library(Path(folder))
        if library is None or not is_obeyed(library):
            print(MISSING)
            return 0
        failed = [clock.name for clock in CLOCKS if not passes(clock, library, words or TESTS)]
    print(f"Failed under: {', '.join(failed)}." if failed else f"Passed under {len(CLOCKS)} clocks.")
    return 1 if failed else 0


def built_library(folder: Path) -> Path | None:
    """The library that shifts the clock, or None where nothing builds it."""
    compiler, library = shutil.which("cc"), folder / "clock_shift.so"
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(LIBRARY_SOURCE), "-ldl"]
    return library if subprocess.run(command, check=False).returncode == 0 else None


def is_obeyed(library: Path) -> bool:
    """Whether Python here sees the shifted clock."""
    clock = Clock("another century", at="2100-01-02T12:00")
    code = "from datetime import date; print(date.today())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=shifted(clock, library), capture_output=True, text=True, check=False
    )
    return done.stdout == "2100-01-02\n"


def passes(clock: Clock, library: Path, words: Sequence[str]) -> bool:
    """Whether the tests pass under a clock."""
    print(f"\n{clock.name}: {clock.moment(datetime.now(timezone.utc)):%Y-%m-%d %H:%M} {clock.zone}", flush=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=shifted(clock, library), check=False).returncode == 0


def shifted(clock: Clock, library: Path) -> dict[str, str]:
    """The environment in which the clock shows its moment from now on."""
    now = datetime.now(timezone.utc)
    shift_s = math.ceil((clock.moment(now) - now).total_seconds())
    return {**os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIFT_S": str(shift_s), "TZ": clock.zone}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
