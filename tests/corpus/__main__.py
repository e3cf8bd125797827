"""Some 400 commands before and after a refactoring.

    python -m tests.corpus record DIR [NAME...]             ask all, or these; what they answer goes to DIR
    python -m tests.corpus compare BEFORE AFTER [--named FILE]   exit code 0 where nothing differs but what is named
    python -m tests.corpus frozen [--write [NAME...]]       the structures that the suite compares, or renew them
    python -m tests.corpus faces [NAME...]                  command line, Python, HTTP and assistants answer alike

Another version of the program is asked with these commands and files by PYTHONPATH=ITS/src python -m tests.corpus.
A line of FILE names what is meant to change: a command (or spot-*) and a regular expression found in the differing
line.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.corpus.commands import commands
from tests.corpus.comparing import differences, read_named, unnamed
from tests.corpus.frozen_structures import FROZEN, frozen_differences, write_frozen
from tests.corpus.recording import FIRST, read_records, recorded


def record(folder: Path, names: list[str]) -> int:
    """Ask the commands; what they answered goes to the folder, one file each."""
    known, began = commands(), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    asked = [known[name] for name in names or known]
    for each in recorded(asked, [known[name] for name in (FIRST if not names else ())]):
        (folder / f"{each.name}.json").write_text(each.written(), encoding="utf-8")
        print(f"{time.monotonic() - began:6.1f} s  {each.code}  {each.name}", file=sys.stderr)
    return 0


def with_one_order_of_sets() -> None:
    """Begin again where sets of texts have an order of this run alone, which an answer may show."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})


def compare(before: Path, after: Path, named: Path | None) -> int:
    """Print what differs and is not named."""
    meant = read_named(named.read_text(encoding="utf-8")) if named else []
    was, now = read_records(before), read_records(after)
    found = list(differences(was, now))
    left = unnamed(found, meant)
    for each in sorted(left, key=lambda each: each.name):
        print(each)
    unseen = [of for of in meant if not any(of.excuses(each) for each in found)]
    for of in unseen:
        print(f"named, but not seen: {of.name}  {of.form.pattern}", file=sys.stderr)
    differing, named_lines = len({each.name for each in left}), len(found) - len(left)
    print(f"{len(was.keys() & now.keys())} commands, {differing} differ; {named_lines} named lines", file=sys.stderr)
    return 1 if left or not was else 0


def frozen(names: list[str] | None) -> int:
    """Print how the suite's structures differ, or write them again."""
    if names is not None:
        write_frozen(names or [path.stem for path in sorted(FROZEN.glob("*.json"))])
        return 0
    found = list(frozen_differences())
    print(*found, sep="\n")
    return 1 if found else 0


def faces(names: list[str]) -> int:
    """Print how faces differ, and a row for each kind of question."""
    from tests.corpus.faces import Outcome, all_faces, rows

    def heard(each: Outcome) -> None:
        for line in each.differences:
            print(f"{each.asked.name}  {line}", flush=True)

    found = all_faces(names, heard)
    print(*rows(found), sep="\n")
    return 1 if any(each.differences for each in found) or not found else 0


def told() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("names", nargs="*")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--named", type=Path)
    freezing = verbs.add_parser("frozen")
    freezing.add_argument("--write", nargs="*", metavar="NAME")
    verbs.add_parser("faces").add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.verb == "record":
        with_one_order_of_sets()
        return record(asked.folder, asked.names)
    if asked.verb == "compare":
        return compare(asked.before, asked.after, asked.named)
    if asked.verb == "faces":
        with_one_order_of_sets()
        return faces(asked.names)
    return frozen(asked.write)


if __name__ == "__main__":
    sys.exit(told())
