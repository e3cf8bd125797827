"""A folder of files that a plan is made into: written whole or not at all, and compared with another."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from gpufleet.cli.emit import TAKEN, write_whole
from gpufleet.errors import UsageError
from gpufleet.files import entries_of, files_below, is_file, is_folder, is_there, read_text_file, refused
from gpufleet.results.deployed import DeployedFile
from gpufleet.units import MB

UNWRITTEN, ELSEWHERE = "cannot write the folder", "--out DIR names another place."
LARGEST_BYTES = 20 * MB
WRITTEN_SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".tf")


class OfFiles(Protocol):
    """An answer that is a folder of files."""

    @property
    def files(self) -> Sequence[DeployedFile]:
        """Each by its path in the folder."""


def write_folder(found: OfFiles, folder: str, *, force: bool) -> None:
    """The files in a folder; one that holds anything is refused unless `force`."""
    taken = TAKEN.get()
    if taken is not None:
        taken.files.update({f"{folder}/{file.name}": file.text for file in found.files})
        return
    target = Path(folder)
    if is_there(target) and not is_folder(target):
        raise UsageError("--out names no folder", found=folder, expected="a new folder, or an empty one")
    if is_folder(target) and entries_of(target):
        if not force:
            raise UsageError("the folder holds files", found=folder, expected="a new one, or --force", hint=ELSEWHERE)
        for file in found.files:
            with refused(UNWRITTEN, folder, ELSEWHERE):
                (target / file.name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(target / file.name, file.text)
        return
    with refused(UNWRITTEN, folder, ELSEWHERE):
        whole = Path(os.path.realpath(target))
        made = Path(tempfile.mkdtemp(dir=whole.parent))
        try:
            for file in found.files:
                (made / file.name).parent.mkdir(parents=True, exist_ok=True)
                (made / file.name).write_text(file.text, encoding="utf-8", newline="")
            made.chmod(0o755)
            os.replace(made, whole)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def differences(found: OfFiles, folder: str) -> str:
    """What differs from the files of a folder, as a patch of them; empty where nothing does."""
    old = Path(folder)
    if not is_folder(old):
        raise UsageError("--diff names no folder", found=folder, expected="what --out wrote")
    now = {file.name: file.text for file in found.files}
    there = (path for suffix in WRITTEN_SUFFIXES for path in files_below(old, suffix))
    gone = {str(path.relative_to(old)) for path in there} - now.keys()
    return "".join(piece for name in [*now, *sorted(gone)] for piece in changes(old / name, name, now.get(name, "")))


def changes(path: Path, name: str, text: str) -> Iterator[str]:
    """The lines of a patch from a file, which may not be there, to its text."""
    before = read_text_file(path, "a file of a deployment", LARGEST_BYTES) if is_file(path) else ""
    return difflib.unified_diff(before.splitlines(True), text.splitlines(True), str(path), name)
