"""The last step of every verb: the answer goes to standard output, or whole into a file."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.cli.interrupts import interrupts_held, interrupts_raised
from gpufleet.cli.options import OutputFormat
from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import Infeasible, UsageError
from gpufleet.files import refused
from gpufleet.report.formats import as_json, page_as_csv, page_as_markdown
from gpufleet.report.money import page_in_shown_currency
from gpufleet.report.numbers import shown_currency
from gpufleet.report.output_stream import remark, say
from gpufleet.report.page import Page
from gpufleet.report.text import page_as_text

PIPE_WIDTH = 80
NARROWEST, WIDEST = 40, 200
UNWRITTEN, ELSEWHERE = "cannot write", "Name a file in a folder you may write to."
TABLE_SUFFIXES = ("", ".txt")
SUFFIXES = {
    ".csv": OutputFormat.CSV,
    ".md": OutputFormat.MD,
    ".json": OutputFormat.JSON,
    ".html": OutputFormat.HTML,
    ".svg": OutputFormat.SVG,
}


@dataclass
class Taken:
    """An answer that somebody takes in place of having it written: its result, its text and its further files."""

    result: object = None
    text: str = ""
    files: dict[str, str] = field(default_factory=dict)


TAKEN: ContextVar[Taken | None] = ContextVar("TAKEN", default=None)


def emit(result: object, page: Page, output: OutputFormat | None = None, out_file: str | None = None) -> None:
    """Write the answer: JSON from the result itself, everything else from its page."""
    text = rendered(result, page_in_shown_currency(page), output or format_of(out_file))
    taken = TAKEN.get()
    if taken is not None:
        taken.result, taken.text = result, text
    elif out_file is None or out_file == "-":
        say(text)
    else:
        write_whole(Path(out_file), text)
        remark(f"wrote {out_file}{named_otherwise(output, out_file)}")


def named_otherwise(output: OutputFormat | None, out_file: str) -> str:
    """That a file holds another format than its suffix names.

    >>> named_otherwise(OutputFormat.CSV, "plan.json"), named_otherwise(OutputFormat.CSV, "plan.csv")
    (' as csv (-o csv), though its name ends in .json', '')
    """
    suffix = Path(out_file).suffix.lower()
    if output is None or SUFFIXES.get(suffix, output) is output:
        return ""
    return f" as {output.value} (-o {output.value}), though its name ends in {suffix}"


def refuse_targets(targets: Sequence[str | None], inputs: Sequence[str]) -> None:
    """Refuse files that cannot be written, one file for two answers, and an answer over a file that is read."""
    if TAKEN.get() is not None:
        return
    taken = [real_path(name) for name in inputs]
    for name in filter(None, targets):
        target = real_path(name)
        if target in taken:
            raise UsageError(f"cannot write {name}: another answer goes there, or it is read", expected="another file")
        refuse_unwritable(name, Path(target))
        if os.path.isfile(target) or not os.path.exists(target):
            taken.append(target)


def real_path(name: str) -> str:
    """Where a name leads, through all links, whether or not anything is there yet."""
    with refused(UNWRITTEN, name, ELSEWHERE):
        real = os.path.realpath(name)
        with suppress(FileNotFoundError):
            os.lstat(real)
    return real


def refuse_unwritable(name: str, target: Path) -> None:
    """A folder is no file, and its folder must take one."""
    if os.path.isdir(target):
        raise UsageError(f"cannot write {name}: it is a folder", hint=ELSEWHERE)
    if not os.path.isdir(target.parent):
        raise UsageError(f"cannot write {name}: no such folder", found=str(target.parent), hint=ELSEWHERE)
    is_replaced = os.path.isfile(target) or not os.path.exists(target)
    if not os.access(target.parent if is_replaced else target, os.W_OK):
        raise UsageError(f"cannot write {name}: permission denied", hint=ELSEWHERE)


def rendered(result: object, page: Page, output: OutputFormat) -> str:
    """The answer in one format."""
    if output is OutputFormat.JSON:
        return as_json(with_currency(result))
    if output is OutputFormat.CSV:
        return csv_of(page)
    if output is OutputFormat.MD:
        return page_as_markdown(page)
    if output is OutputFormat.HTML:
        return html_of(page)
    if output is OutputFormat.SVG:
        return svg_of(page, is_answered=getattr(result, "is_feasible", True))
    return page_as_text(page, page_width())


def with_currency(result: object) -> object:
    """A result in dollars, as its fields say, with the currency in which its reader asked for it and the rate."""
    currency = shown_currency()
    if currency is None or not hasattr(result, "model_dump"):
        return result
    return {**result.model_dump(mode="json"), CURRENCY_KEY: {"code": currency.code, "per_usd": currency.per_usd}}


def csv_of(page: Page) -> str:
    """The first table of the answer; one that has none says why."""
    if not page.tables:
        raise Infeasible("there is no row to write", found=page.first_sentence, hint="As a page: -o table.")
    return page_as_csv(page)


def html_of(page: Page) -> str:
    """The answer as one file for browsers and printers."""
    from gpufleet.report.html import page_as_html

    return page_as_html(page)


def svg_of(page: Page, *, is_answered: bool) -> str:
    """The first picture of the answer alone."""
    if page.pictures:
        return page.pictures[0].wide
    as_page = "As a page: -o html, or a file name that ends in .html."
    if not is_answered:
        raise Infeasible("there is nothing to draw", found=page.first_sentence, hint=as_page)
    from gpufleet.results.answer import DRAWN

    raise UsageError("this answer has no picture", expected=DRAWN, hint=as_page)


def is_page(output: OutputFormat | None, out_file: str | None) -> bool:
    """Whether people read the answer: not as CSV, which holds every row."""
    return (output or format_of(out_file)) is not OutputFormat.CSV


def format_of(out_file: str | None) -> OutputFormat:
    """The format that a file's suffix names; no suffix is a table, and one that names nothing is refused."""
    suffix = Path(out_file).suffix.lower() if out_file else ""
    if suffix in TABLE_SUFFIXES:
        return OutputFormat.TABLE
    if suffix not in SUFFIXES:
        raise UsageError(
            f"no format is known for files that end in {suffix}",
            found=out_file,
            expected=", ".join(SUFFIXES) + " or .txt; without a suffix it is a table",
            hint="'-o FORMAT' chooses whatever the file is called.",
        )
    return SUFFIXES[suffix]


def page_width() -> int:
    """Columns of the terminal, or of COLUMNS where it is set; 80 when the answer goes elsewhere."""
    asked = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"[0-9]{1,6}", asked) and int(asked) > 0:
        width = int(asked)
    elif sys.stdout is None or not sys.stdout.isatty():
        width = PIPE_WIDTH
    else:
        width = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    return min(max(width, NARROWEST), WIDEST)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; a link is followed, a device is written to."""
    write_pieces(path, [text], interrupts_held)


def write_streamed(path: Path, pieces: Iterable[str]) -> None:
    """The same of a text that is too long to wait for: Ctrl-C ends it, and leaves the file as it was."""
    write_pieces(path, pieces, interrupts_raised)


def write_pieces(path: Path, pieces: Iterable[str], interrupts: Callable[[], AbstractContextManager[None]]) -> None:
    """Write piece by piece: into a device, else beside the target, which is then replaced."""
    taken = TAKEN.get()
    if taken is not None:
        taken.files[str(path)] = "".join(pieces)
        return
    with refused(UNWRITTEN, path, ELSEWHERE):
        target = Path(os.path.realpath(path))
        if os.path.exists(target) and not os.path.isfile(target):
            with target.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(pieces)
        else:
            with interrupts():
                replace_file(target, pieces)


def replace_file(target: Path, pieces: Iterable[str]) -> None:
    """Write beside the target, then move over it."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.writelines(pieces)
        os.chmod(name, target.stat().st_mode if os.path.exists(target) else 0o666 & ~current_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def current_umask() -> int:
    """The permissions that new files are denied; reading it means setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
