"""Change the code in one place at a time and see whether a test notices.

    python -m tools.mutants                            200 changes, drawn over the modules that decide answers
    python -m tools.mutants --of memory --count 50     50 changes of the modules under src/gpufleet/memory
    python -m tools.mutants --of memory/fit.py:30 --all    every change of a line
    python -m tools.mutants --of 'optimize/spot*.py'       200 changes of the modules of a pattern

The sample of a seed stays, whatever is edited elsewhere. Each change is run in a process of its own, on tests that
enter the changed function, up to the first that fails. No file is changed: modules are imported from changed trees, and
the simulator runs as it is written, without Numba. What tests enter is recorded once for every version of a test file,
under build/mutants; remove that folder to record it again. A test of more than ten seconds is never asked.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.mutants.changes import Mutant, mutants_of
from tools.mutants.nearest import nearest_tests
from tools.mutants.processes import Outcome, covering_files, outcomes

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = Path("src") / "gpufleet"
MODULES = (
    "optimize", "simulate", "pricing", "memory", "performance/serving.py", "performance/queueing.py",
    "catalog/update.py", "catalog/usual_prices.py", "catalog/own_prices.py", "catalog/snapshots.py",
    "catalog/transport.py",
)  # fmt: skip
LEAST_KILLED_RATIO = 0.85


def main(words: Sequence[str] | None = None) -> int:
    """Plant, run, count and list; 1 where fewer are killed than should be."""
    os.chdir(REPOSITORY)
    asked = arguments().parse_args(words)
    mutants = [mutant for name in asked.of for mutant in mutants_at(name)]
    drawn = mutants if asked.all else sorted(mutants, key=lambda mutant: lot_of(mutant, asked.seed))[: asked.count]
    modules = [module for name in MODULES for module in modules_at(name)]
    files = covering_files(modules, sorted(nearest_tests(mutant.path for mutant in drawn)), asked.jobs)
    counts: Counter[Outcome] = Counter()
    for mutant, outcome in outcomes(drawn, files, modules, asked.seconds, asked.jobs):
        counts[outcome] += 1
        if not outcome.is_killed:
            print(f"{described(mutant)}  [{outcome.value}]", flush=True)
        print(f"{counts.total()} of {len(drawn)}", end="\r", file=sys.stderr, flush=True)
    return told(counts, len(mutants))


def arguments() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--of", nargs="+", default=MODULES, help="files, patterns, FILE:LINE, folders in src/gpufleet")
    parser.add_argument("--count", type=int, default=200, help="changes that are drawn")
    parser.add_argument("--all", action="store_true", help="every change")
    parser.add_argument("--seed", type=int, default=1, help="which changes are drawn")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of tests that a change is given")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser


def mutants_at(name: str) -> Iterator[Mutant]:
    """Every change of a folder, a module, or a line of a module."""
    place, _, line = name.partition(":")
    for module in modules_at(place):
        found = mutants_of(str(module), module.read_text(encoding="utf-8"))
        yield from (mutant for mutant in found if not line or mutant.line == int(line))


def modules_at(name: str) -> list[Path]:
    """The modules of a folder or of a pattern, or the one that is named."""
    path = SOURCE / name
    return sorted(path.rglob("*.py") if path.is_dir() else SOURCE.glob(name)) or [path]


def lot_of(mutant: Mutant, seed: int) -> bytes:
    """What a change draws: the same whatever is edited elsewhere."""
    return hashlib.sha256(f"{seed} {mutant.path} {mutant.function} {mutant.change}".encode()).digest()


def described(mutant: Mutant) -> str:
    """A change with its place, as an editor finds it."""
    return f"{mutant.path}:{mutant.line} {mutant.function or ', '.join(mutant.names)}: {mutant.change}"


def told(counts: Counter[Outcome], num_possible: int) -> int:
    """Print the share that was killed; 1 where it is too small."""
    killed_ratio = sum(count for outcome, count in counts.items() if outcome.is_killed) / max(counts.total(), 1)
    kinds = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    print(f"{killed_ratio:.1%} of {counts.total()} changes killed, of {num_possible} possible: {kinds}")
    return 0 if killed_ratio >= LEAST_KILLED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
