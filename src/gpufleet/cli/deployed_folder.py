"""A folder of files that a plan is made into: written whole or not at all, and compared with another."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpufleet.cli.emit import TAKEN, current_umask, emit, format_of, refuse_targets, rendered, write_whole
from gpufleet.cli.interrupts import interrupts_held
from gpufleet.cli.options import OutputFormat
from gpufleet.errors import UsageError
from gpufleet.files import entries_of, files_below, is_file, is_folder, is_there, read_text_file, refused
from gpufleet.report.controls import visible, visible_lines
from gpufleet.report.output_stream import remark, say
from gpufleet.report.page import Page
from gpufleet.results.deployed import DeployedFile
from gpufleet.units import MB

UNWRITTEN, ELSEWHERE = "cannot write the folder", "--out DIR names another place."
LARGEST_BYTES = 20 * MB
WITHOUT_END = "\\ No newline at end of file"
"""What patches say of a last line (diffutils, Incomplete Lines)."""
WRITTEN_SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".tf", ".cfg", ".sh", ".md")
MOST_NAMED = 5
"""Files of somebody else that are named one by one; a judgement."""


A = TypeVar("A", bound="OfFiles")


class OfFiles(Protocol):
    """An answer that is a folder of files."""

    @property
    def files(self) -> Sequence[DeployedFile]:
        """Each by its path in the folder."""

    @property
    def notes(self) -> Sequence[str]:
        """What is said beside them."""

    def model_copy(self: A, *, update: Mapping[str, Any] | None = None) -> A:
        """The same answer with other fields."""


def tell_files(
    found: A,
    page_of: Callable[[A, str | None], Page],
    *,
    plan: str,
    out: str | None,
    force: bool,
    diff: str | None,
    output: OutputFormat | None,
    out_file: str | None,
) -> None:
    """What a verb of files answers to a `plan`: its files in a folder and what they are, or how another differs."""
    refuse_targets([None if out_file == "-" else out_file], [plan, *([] if out is None else [out])])
    if force and out is None:
        raise UsageError("--force has no meaning here", expected="--out DIR beside it")
    if diff is not None:
        if out is not None or (output is not None and TAKEN.get() is None):
            raise UsageError("--diff shows a patch, and writes no folder", expected="--diff without --out and -o")
        tell_patch(differences(found, diff), out_file)
        return
    if out is not None:
        rendered(found, page_of(found, out), output or format_of(out_file))  # what has no such form leaves no folder
        left = write_folder(found, out, force=force)
        found = found.model_copy(update={"notes": [*left, *found.notes]})
    emit(found, page_of(found, out), output, out_file)


def tell_patch(patch: str, out_file: str | None) -> None:
    """A patch on standard output, or whole in a file."""
    if out_file is None or out_file == "-":
        say(patch)
        return
    write_whole(Path(out_file), patch)
    remark(f"wrote {out_file}")


def write_folder(found: OfFiles, folder: str, *, force: bool) -> list[str]:
    """The files in a folder, and what is said of those that are there beside them.

    A folder that holds anything is refused unless `force`. Either all files are written or none.
    """
    taken = TAKEN.get()
    if taken is not None:
        taken.files.update({f"{folder}/{file.name}": file.text for file in found.files})
        return []
    target = Path(folder)
    if is_there(target) and not is_folder(target):
        raise UsageError("--out names no folder", found=folder, expected="a new folder, or an empty one")
    with refused(UNWRITTEN, folder, ELSEWHERE):
        whole = Path(os.path.realpath(target))
        if is_folder(whole) and os.listdir(whole) and not force:
            raise UsageError("the folder holds files", found=folder, expected="a new one, or --force", hint=ELSEWHERE)
        with interrupts_held():
            if not is_folder(whole):
                put_new(found, whole)
                return []
            put_into(found, whole)
    return list(left_beside(found, whole))


def put_new(found: OfFiles, whole: Path) -> None:
    """The files as a folder that was not there."""
    with made_beside(whole.parent) as made:
        write_all(found, made)
        made.chmod(0o777 & ~current_umask())
        os.replace(made, whole)


def put_into(found: OfFiles, whole: Path) -> None:
    """The files in a folder that stays what it is: all are written beside each other first, then each is moved."""
    for file in found.files:
        refuse_in_the_way(whole, file.name)
    with made_beside(whole) as made:
        write_all(found, made)
        for file in found.files:
            (whole / file.name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(made / file.name, whole / file.name)


@contextmanager
def made_beside(folder: Path) -> Iterator[Path]:
    """A folder inside another, gone afterwards unless it was moved."""
    made = Path(tempfile.mkdtemp(dir=folder, prefix=".gpufleet-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def write_all(found: OfFiles, folder: Path) -> None:
    """Each file by its path."""
    for file in found.files:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_text(file.text, encoding="utf-8", newline="")


def refuse_in_the_way(whole: Path, name: str) -> None:
    """Refuse a folder that stands where a file goes, and a link or a file that stands where a folder goes."""
    *folders, _ = Path(name).parts
    for depth in range(len(folders)):
        place = whole.joinpath(*folders[: depth + 1])
        if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
            raise UsageError("a folder cannot be written", found=f"{place} is a link or a file", hint=ELSEWHERE)
    if os.path.lexists(whole / name) and not (os.path.isfile(whole / name) or os.path.islink(whole / name)):
        raise UsageError("a file cannot be written", found=f"{whole / name} is no file", hint=ELSEWHERE)


def left_beside(found: OfFiles, whole: Path) -> Iterator[str]:
    """What is said of files that others wrote, where whoever reads the plan's files reads them too."""
    own = {file.name for file in found.files}
    read = sorted({parts[0] for file in found.files if len(parts := Path(file.name).parts) > 1})
    there = [entry for entry in entries_of(whole) if not is_folder(entry)]
    there += [path for folder in read for suffix in WRITTEN_SUFFIXES for path in files_below(whole / folder, suffix)]
    others = [name for path in there if (name := str(path.relative_to(whole))) not in own]
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        named = ", ".join(map(visible, others[:MOST_NAMED]))
        yield f"Not of this plan, and left as it was: {named}{more}; commands on the folder take it too"


def differences(found: OfFiles, folder: str) -> str:
    """What differs from the files of a folder, as a patch of them; empty where nothing does."""
    old = Path(folder)
    if not is_folder(old):
        raise UsageError("--diff names no folder", found=folder, expected="what --out wrote")
    now = {file.name: file.text for file in found.files}
    there = (path for suffix in WRITTEN_SUFFIXES for path in files_below(old, suffix))
    gone = {str(path.relative_to(old)) for path in there} - now.keys()
    patch = "".join(piece for name in [*now, *sorted(gone)] for piece in changes(old / name, name, now.get(name, "")))
    return visible_lines(patch)


def changes(path: Path, name: str, text: str) -> Iterator[str]:
    """The lines of a patch from a file, which may not be there, to its text."""
    before = read_text_file(path, "a file of a deployment", LARGEST_BYTES) if is_file(path) else ""
    lines = before.splitlines(True), text.splitlines(True)
    for line in difflib.unified_diff(*lines, visible(str(path)), visible(name)):
        yield line if line.endswith("\n") else f"{line}\n{WITHOUT_END}\n"
