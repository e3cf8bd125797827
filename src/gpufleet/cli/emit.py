"""The last step of every verb: the answer goes to standard output, or whole into a file."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from gpufleet.cli.options import OutputFormat
from gpufleet.cli.output_stream import say
from gpufleet.errors import UsageError
from gpufleet.report.formats import as_json, page_as_csv, page_as_markdown
from gpufleet.report.page import Page
from gpufleet.report.text import page_as_text

PIPE_WIDTH = 80
NARROWEST, WIDEST = 40, 200


def emit(result: object, page: Page, output: OutputFormat | None = None, out_file: str | None = None) -> None:
    """Write the answer: JSON from the result itself, everything else from its page."""
    text = rendered(result, page, output or format_of(out_file))
    if out_file is None or out_file == "-":
        say(text)
    else:
        write_whole(Path(out_file), text)
        print(f"wrote {out_file}", file=sys.stderr)


def rendered(result: object, page: Page, output: OutputFormat) -> str:
    """The answer in one format."""
    if output is OutputFormat.JSON:
        return as_json(result)
    if output is OutputFormat.CSV:
        return page_as_csv(page)
    if output is OutputFormat.MD:
        return page_as_markdown(page)
    return page_as_text(page, page_width())


def format_of(out_file: str | None) -> OutputFormat:
    """The format that a file's suffix names, else a table."""
    suffix = Path(out_file).suffix.removeprefix(".").lower() if out_file else ""
    return OutputFormat(suffix) if suffix in {f.value for f in OutputFormat} else OutputFormat.TABLE


def page_width() -> int:
    """Columns of the terminal; 80 when the answer goes elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return PIPE_WIDTH
    return min(max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, NARROWEST), WIDEST)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; a link is followed, a device is written to."""
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8", newline="")
        else:
            replace_file(target, text)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="Name a file in a folder you may write to."
        ) from (error)


def replace_file(target: Path, text: str) -> None:
    """Write beside the target, then move over it."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        os.chmod(name, target.stat().st_mode if target.exists() else 0o666 & ~current_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def current_umask() -> int:
    """The permissions that new files are denied; reading it means setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
