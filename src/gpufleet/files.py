"""Files and folders that users name: the one place where they are looked up, listed, read and parsed.

Whatever is wrong with one is one `UsageError`: no such file, no leave to read it, a name that no system takes, a
device, more bytes than anybody writes, no UTF-8, no TOML, brackets without end, a number of 5,000 digits.
Whether a file is there is asked of `os.path`, which answers whatever the name is; `Path.is_file` raises.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.units import MB

REASONS = {errno.ENOENT: "no such file or folder", errno.ELOOP: "a link that leads back to itself"}
LONGEST_INTEGER_BITS = 64
ABSURD_INTEGER = f"it holds a whole number of more than {LONGEST_INTEGER_BITS} bits"
GZIP_START = b"\x1f\x8b"
PACKAGE = os.path.dirname(os.path.abspath(__file__))
BROUGHT: ContextVar[Mapping[str, bytes] | None] = ContextVar("BROUGHT", default=None)
"""The files that came with a question, by name; None where users name those of this machine."""
OWN: ContextVar[tuple[str, ...]] = ContextVar("OWN", default=())
"""Files and folders of this machine that hold beside those that came with a question: preferences, own tables."""


@contextmanager
def only_files(contents: Mapping[str, bytes], own: Sequence[str] = ()) -> Iterator[None]:
    """The files that users name are these: whatever else they name is not there, whether or not this machine has it.

    `own` are files and folders of this machine that are there nevertheless.
    """
    before = BROUGHT.set({os.path.normpath(name): content for name, content in contents.items()})
    before_own = OWN.set(tuple(os.path.normpath(name) for name in own))
    try:
        yield
    finally:
        OWN.reset(before_own)
        BROUGHT.reset(before)


def brought(path: str | os.PathLike[str]) -> Mapping[str, bytes] | None:
    """The files that came with a question, where a path is one of theirs to name; what we ship is on this machine."""
    held, name = BROUGHT.get(), os.path.normpath(path)
    is_there_anyway = any(name == own or name.startswith(own + os.sep) for own in (PACKAGE, *OWN.get()))
    return None if held is None or is_there_anyway else held


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there, or what a link leads to."""
    held = brought(path)
    return os.path.isfile(path) if held is None else os.path.normpath(path) in held


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is there."""
    held = brought(path)
    if held is None:
        return os.path.isdir(path)
    return any(name.startswith(os.path.normpath(path) + os.sep) for name in held)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether anything is there, a link that leads nowhere too."""
    return os.path.lexists(path) if brought(path) is None else is_file(path) or is_folder(path)


def folder_of(file: Path) -> str:
    """The name of the folder that a file is in; none where a file came alone with a question."""
    return file.resolve().parent.name if brought(file) is None else file.parent.name


def named_path(name: str | os.PathLike[str]) -> Path:
    """The path that a user means; '~' stands for a home folder where there is one."""
    if "\0" in os.fspath(name):
        raise UsageError("a path cannot hold a NUL", found=os.fspath(name))
    return Path(os.path.expanduser(name) if BROUGHT.get() is None else name)


def read_text_file(path: str | Path, what: str, limit_bytes: float = MB, may_be_packed: bool = False) -> str:
    """The text of a regular file in UTF-8, packed by gzip where it may be; `what` names it in errors: 'a workload'."""
    content = read_start(path, what, limit_bytes + 1)
    if may_be_packed and content.startswith(GZIP_START):
        content = unpacked(content, path, what, limit_bytes)
    if len(content) > limit_bytes:
        raise UsageError(f"{what} is too large: {str(path)!r}", expected=f"at most {limit_bytes / MB:g} MB")
    return decoded(content, path, what)


def unpacked(content: bytes, path: str | Path, what: str, limit_bytes: float) -> bytes:
    """What gzip packed, no more than one byte beyond the limit."""
    import gzip
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            return stream.read(int(limit_bytes) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{what} is no whole gzip file: {str(path)!r}", found=str(error)) from error


def read_start(path: str | Path, what: str, limit_bytes: float) -> bytes:
    """The first bytes of a regular file of any size."""
    held = brought(path)
    with refused(f"cannot read {what}", path):
        if held is not None:
            return brought_start(held, path, int(limit_bytes))
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(f"cannot read {what}: {str(path)!r} is not a file")
        with open(path, "rb") as stream:
            return stream.read(int(limit_bytes))


def brought_start(held: Mapping[str, bytes], path: str | Path, limit_bytes: int) -> bytes:
    """The same of a file that came with a question."""
    if os.path.normpath(path) not in held:
        raise FileNotFoundError(errno.ENOENT, "not among the files of the question")
    return held[os.path.normpath(path)][:limit_bytes]


@contextmanager
def refused(problem: str, path: str | Path, hint: str | None = None) -> Iterator[None]:
    """What the system refuses to do with a file is said: `problem` begins the sentence."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or error)
        raise UsageError(f"{problem}: {reason}", found=str(path), hint=hint) from error
    except ValueError as error:
        raise UsageError(f"{problem}: this is not a file name", found=str(path), hint=hint) from error


def decoded(content: bytes, path: str | Path, what: str) -> str:
    """UTF-8, with or without a byte-order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not text in UTF-8: {str(path)!r}, byte {error.start}") from error


def entries_of(folder: Path) -> list[Path]:
    """What stands in a folder and is not hidden, sorted by name; nothing where there is no folder."""
    held = brought(folder)
    if held is not None:
        within = [Path(name).relative_to(folder).parts[0] for name in held if Path(name).is_relative_to(folder)]
        return [folder / name for name in sorted(set(within)) if name[0] != "."]
    with refused("cannot read a folder", folder):
        try:
            return [folder / name for name in sorted(os.listdir(folder)) if name[0] != "."]
        except (FileNotFoundError, NotADirectoryError):
            return []


def files_below(folder: Path, suffix: str) -> list[Path]:
    """Files at any depth of a folder that end in `suffix`, in a stable order; links to folders are not followed."""
    found: list[Path] = []
    for entry in entries_of(folder):
        if is_folder(entry):
            found += [] if os.path.islink(entry) else files_below(entry, suffix)
        elif entry.suffix == suffix:
            found.append(entry)
    return found


def toml_table(text: str, name: str | Path, expected: str | None = None) -> dict[str, Any]:
    """A TOML text as a table; `name` is its file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(text)
        is_absurd = holds_absurd_integer(table)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is not TOML: {error}", expected=expected) from error
    except RecursionError as error:
        raise UsageError(f"{name} is not TOML: it is nested too deeply", expected=expected) from error
    except ValueError:
        is_absurd = True
    if is_absurd:
        raise UsageError(f"{name}: {ABSURD_INTEGER}", expected=expected)
    return table


def holds_absurd_integer(value: object) -> bool:
    """Whether a whole number that TOML does not have stands anywhere in a value; Python cannot print the longest."""
    if isinstance(value, int):
        return value.bit_length() > LONGEST_INTEGER_BITS
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(holds_absurd_integer(item) for item in items)


def named_rows(text: str, what: str, expected: str | None = None) -> list[dict[str, str]]:
    """The rows of a CSV text by their columns, whatever its lines end in; cells without a column are left out.

    >>> named_rows("a,b\\r1,2\\r", "a log")
    [{'a': '1', 'b': '2'}]
    """
    import csv
    import io

    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise UsageError(f"{what} is not CSV: {error}", expected=expected) from error
    return [{name: cell for name, cell in row.items() if isinstance(name, str) and cell is not None} for row in rows]


def told_once(header: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The columns that rows have cells for, and what is said of all rows at once.

    >>> told_once(["region", "cloud=aws", "interruption="])
    (['region'], {'cloud': 'aws', 'interruption': ''})
    """
    same = dict(name.split("=", 1) for name in header if "=" in name)
    return [name for name in header if "=" not in name], same
