"""A command line answered in this process: what it would have written is handed over, and no file is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from contextvars import copy_context
from dataclasses import dataclass
from io import StringIO
from types import MappingProxyType

from gpufleet.cli.app import as_told, dispatch
from gpufleet.cli.emit import TAKEN, Taken
from gpufleet.errors import GpufleetError
from gpufleet.files import only_files

NO_FILES: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True)
class Answered:
    """What came of a command line: its exit code, the answer as text and as a result, further files, what went wrong.

    `files` are those that options such as --rules write, by the names that were given; `remarks` are what standard
    error would have shown beside an error.
    """

    code: int
    text: str
    result: object
    files: Mapping[str, str]
    remarks: str
    error: GpufleetError | None = None


def answered(arguments: Sequence[str], files: Mapping[str, bytes] = NO_FILES, own: Sequence[str] = ()) -> Answered:
    """The answer to what is typed after `gpufleet`; the files that it names are these, and none of this machine.

    `own` are files and folders of this machine that hold without being named: preferences, a folder of tables.
    """
    taken, words, remarks, printed = Taken(), list(arguments), StringIO(), StringIO()

    def asked() -> int:
        TAKEN.set(taken)
        with only_files(files, own), redirect_stderr(remarks), redirect_stdout(printed):
            return dispatch(words)

    error = None
    try:
        code = copy_context().run(asked)
    except Exception as raised:
        error = as_told(raised, words)
        code = error.exit_code
    text = taken.text or printed.getvalue()
    return Answered(code, text, taken.result, taken.files, remarks.getvalue(), error)
