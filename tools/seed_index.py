"""Every line of the five seed documents that says something, with an id; and docs/seeds.md held against them.

    python -m tools.seed_index            what is missing, unknown or stale in docs/seeds.md
    python -m tools.seed_index --write    put counts, kinds and quotations of docs/seeds.md right
    python -m tools.seed_index --list     all ids with kind and text

An id is document:line, such as guide:185. What counts: headings; tables (their header) and their rows; code blocks, and
inside them each command (shell), formula (arithmetic in Python, `Cost: ...` in plain text), metric, threshold, figure
(YAML) and setting (YAML, JSON, Terraform); formulas in TeX; and every other line of prose that does more than introduce
the next.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpufleet.table import VERBS

REPOSITORY = Path(__file__).resolve().parents[1]
SEEDS = REPOSITORY / "tests" / "contracts" / "seeds"
PAGE = REPOSITORY / "docs" / "seeds.md"
DOCUMENTS = ("assessment", "lesson", "computation", "guide", "selection")
STATES = ("holds", "differs", "planned", "text")
COLUMNS = ("id", "kind", "the seed says", "state", "where it lives", "held by, or because")
MISENCODED_AS = {"guide": "mac_roman", "selection": "cp1252"}
"""Two documents were once read in the wrong code page: 'â†’' stands for an arrow."""
QUOTED_LENGTH = 110
CODE_KINDS = ("block", "command", "formula", "metric", "threshold", "figure", "setting")

FENCE = re.compile(r"^\s*```(\w*)\s*$")
HEADING = re.compile(r"^(#{1,6}) (.+)$")
LIST_MARK = re.compile(r"^[-*] (?:\[ \] )?|^\d+\. |^#+ ")
SEPARATOR = re.compile(r"^\|[\s:|-]+\|$")
RULE = re.compile(r"^-{3,}$")
INTRODUCTION = re.compile(r"^(?!- )[^0-9]*:[* ]*$")
"""A line that ends in a colon, holds no figure and is no item of a list."""
YAML_FIGURE = re.compile(r"^\s*(memory_required|training_time|batch_size|gpu_count|savings|commitment):\s*\S")
YAML_THRESHOLD = re.compile(r"^\s*(threshold|\w+_target):\s*\S")
YAML_SETTING = re.compile(r"^\s*(?:- )?[\w./-]+:\s+\S|^\s*- \S")
JSON_SETTING = re.compile(r'^\s*"[\w-]+":\s*(?:[^{\[\s]|\[\s*[^{\s])|^\s*"[^"]+",?\s*(?://.*)?$')
YAML_METRIC = re.compile(r"^\s*- (\w+)\s*$")
TERRAFORM_SETTING = re.compile(r"^\s*\w+\s*=\s*\S")
PLAIN_FORMULA = re.compile(r"^Cost: .*=")
PLAIN_FIGURE = re.compile(r"^(Configuration|Usage): ")
COMMENTED_FIGURE = re.compile(r".*# .*\d(?:GB|x|%)")
"""What a comment in a program says of its figures, or of what it prints."""
NO_COMMAND = {"done", "fi"}
SUMMARY = re.compile(r"(?<=<!-- summary -->\n).*?(?=<!-- end of summary -->)", re.DOTALL)
ROW = re.compile(r"^\| ((?:" + "|".join(DOCUMENTS) + r"):\d+) \|(.*)\|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
NAME = re.compile(r"`(gpufleet(?:\.\w+)+|gpufleet [a-z]+(?: [^`]*)?|[\w.-]+/[^`:]*)`")
NO_CELL_BREAK = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Element:
    """One thing that a seed says: where it stands, what kind of thing it is, and its text."""

    document: str
    line: int
    kind: str
    text: str

    @property
    def id(self) -> str:
        """Its name in docs/seeds.md."""
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Block:
    """A code block: language, first line of its code, and the code."""

    document: str
    fence_line: int
    language: str
    code: str
    is_closed: bool

    @property
    def id(self) -> str:
        """The line of its opening fence."""
        return f"{self.document}:{self.fence_line}"

    @property
    def first_line(self) -> int:
        """Where its code begins."""
        return self.fence_line + 1


@dataclass(frozen=True)
class Entry:
    """One line of docs/seeds.md."""

    id: str
    kind: str
    quotation: str
    state: str
    where: str
    reason: str


def lines_of(document: str) -> list[str]:
    """The text of a seed, line by line."""
    return (SEEDS / f"{document}.md").read_text(encoding="utf-8").split("\n")


def readable(document: str, text: str) -> str:
    """The text with its wrong code page undone; what cannot be undone is left out."""
    codec = MISENCODED_AS.get(document)
    if codec is None or text.isascii():
        return text
    try:
        return text.encode(codec).decode("utf-8")
    except UnicodeError:
        return " ".join(re.sub(r"[^\x00-\x7f]+", " ", text).split())


def blocks_of(document: str) -> list[Block]:
    """The code blocks of a seed; one that the text breaks off in ends with the text."""
    blocks: list[Block] = []
    opened: tuple[int, str] | None = None
    lines = lines_of(document)
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if fence and opened is None:
            opened = (number, fence[1])
        elif fence and opened is not None:
            blocks.append(block_between(document, lines, *opened, number, is_closed=True))
            opened = None
    if opened is not None:
        blocks.append(block_between(document, lines, *opened, len(lines) + 1, is_closed=False))
    return blocks


def block_between(
    document: str, lines: list[str], fence_line: int, language: str, end_line: int, *, is_closed: bool
) -> Block:
    """The block between two fences, its indentation (inside a list) taken away."""
    indent = len(lines[fence_line - 1]) - len(lines[fence_line - 1].lstrip())
    code = "\n".join(line[indent:] for line in lines[fence_line : end_line - 1])
    return Block(document, fence_line, language, code + "\n", is_closed)


def elements_of(document: str) -> list[Element]:
    """Everything that a seed says, in its order."""
    blocks = blocks_of(document)
    inside = {n for b in blocks for n in range(b.fence_line, b.first_line + b.code.count("\n") + b.is_closed)}
    prose = [(n, line) for n, line in enumerate(lines_of(document), start=1) if n not in inside]
    found = [*prose_elements(document, prose), *(e for block in blocks for e in block_elements(block))]
    return sorted(found, key=lambda element: element.line)


def prose_elements(document: str, lines: Iterable[tuple[int, str]]) -> Iterator[Element]:
    """Headings, tables, formulas and statements outside code."""
    is_in_table = False
    for number, line in lines:
        text = line.strip()
        if text.startswith("|"):
            if not SEPARATOR.match(text):
                yield Element(document, number, "row" if is_in_table else "table", text)
            is_in_table = True
            continue
        is_in_table = False
        kind = prose_kind(text)
        if kind:
            yield Element(document, number, kind, text)


def prose_kind(text: str) -> str | None:
    """What a line of prose is; None where it says nothing or introduces what follows."""
    if HEADING.match(text):
        return "heading"
    if not text or RULE.match(text) or INTRODUCTION.match(text):
        return None
    return "formula" if text.startswith("$$") else "statement"


def block_elements(block: Block) -> Iterator[Element]:
    """The block itself, and what is in it."""
    first_text = next((line.strip() for line in block.code.split("\n") if line.strip()), "")
    yield Element(block.document, block.fence_line, "block", f"{block.language or 'plain'}: {first_text}")
    for offset, kind, text in block_parts(block):
        yield Element(block.document, block.first_line + offset, kind, text)


def block_parts(block: Block) -> Iterator[tuple[int, str, str]]:
    """Offset, kind and text of the commands, formulas, metrics, thresholds, figures and settings of a block."""
    if is_shell(block):
        yield from ((offset, "command", text) for offset, text in commands_in(block.code))
        return
    arithmetic = list(arithmetic_in(block.code)) if block.language == "python" else []
    yield from arithmetic
    computing = {offset for offset, _, _ in arithmetic}
    for offset, line in enumerate(block.code.split("\n")):
        kind = line_kind(block.language, line)
        if kind and offset not in computing:
            yield offset, kind, line.strip()


def is_shell(block: Block) -> bool:
    """Whether a shell runs it: blocks that call python3 are marked as Python and are none."""
    return block.language == "bash" or (block.language == "python" and block.code.startswith("python3 "))


def line_kind(language: str, line: str) -> str | None:
    """What a line inside a block that is no program says, if anything is to be indexed."""
    rules = {
        "yaml": (
            (YAML_FIGURE, "figure"),
            (YAML_THRESHOLD, "threshold"),
            (YAML_METRIC, "metric"),
            (YAML_SETTING, "setting"),
        ),
        "json": ((JSON_SETTING, "setting"),),
        "hcl": ((TERRAFORM_SETTING, "setting"),),
        "": ((PLAIN_FORMULA, "formula"), (PLAIN_FIGURE, "figure")),
        "python": ((COMMENTED_FIGURE, "figure"),),
    }
    return next((kind for pattern, kind in rules.get(language, ()) if pattern.match(line)), None)


def commands_in(code: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each command of a shell block, continued lines and quoted programs kept together."""
    pending: list[str] = []
    for offset, line in enumerate(code.split("\n")):
        if not pending and (not line.strip() or line.lstrip().startswith("#") or line.strip() in NO_COMMAND):
            continue
        pending.append(line)
        if is_complete("\n".join(pending)):
            yield offset - len(pending) + 1, " ".join(part.strip().rstrip("\\").strip() for part in pending)
            pending = []


def is_complete(command: str) -> bool:
    """Whether quotes are closed and no line is continued."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.rstrip().endswith("\\")


def arithmetic_in(code: str) -> Iterator[tuple[int, str, str]]:
    """Offset and text of each line that computes something; a block that is no whole program has none."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    lines = code.split("\n")
    for number in sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.BinOp)}):
        yield number - 1, "formula", lines[number - 1].strip()


def all_elements() -> list[Element]:
    """Everything that the five seeds say."""
    return [element for document in DOCUMENTS for element in elements_of(document)]


def all_blocks() -> list[Block]:
    """All code blocks of the five seeds."""
    return [block for document in DOCUMENTS for block in blocks_of(document)]


def entries_of(page: str) -> list[Entry]:
    """The lines of docs/seeds.md."""
    return [Entry(match[1], *cells_of(match[2])) for match in ROW.finditer(page)]


def cells_of(row: str) -> list[str]:
    """The cells after the id."""
    return [cell.strip() for cell in NO_CELL_BREAK.split(row)]


def quotation_of(element: Element) -> str:
    """The text of an element as one cell: readable, shortened, code as code, nothing that breaks the table."""
    text = readable(element.document, element.text).replace("`", "'" if element.kind in CODE_KINDS else "")
    if element.kind in ("table", "row"):
        text = " / ".join(cell.strip() for cell in text.strip("|").split("|"))
    if element.kind not in CODE_KINDS:
        text = LIST_MARK.sub("", text).replace("**", "").replace("_", "\\_").replace("<", "&lt;")
    text = " ".join(text.split())
    short = text if len(text) <= QUOTED_LENGTH else text[: QUOTED_LENGTH - 1].rstrip("\\ ") + "…"
    short = short.replace("|", "\\|")
    return f"`{short}`" if element.kind in CODE_KINDS else short


def row_of(entry: Entry) -> str:
    """An entry as a line of its table."""
    cells = (entry.id, entry.kind, entry.quotation, entry.state, entry.where, entry.reason)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def summary_of(entries: list[Entry]) -> str:
    """Number of lines by document and state, and by kind and state, as two tables."""
    by_document = Counter((entry.id.split(":")[0], entry.state) for entry in entries)
    by_kind = Counter((entry.kind, entry.state) for entry in entries)
    kinds = sorted({entry.kind for entry in entries})
    return f"\n{count_table('document', DOCUMENTS, by_document)}\n{count_table('kind', kinds, by_kind)}\n"


def count_table(name: str, keys: Iterable[str], counts: Counter[tuple[str, str]]) -> str:
    """A table of counts with a row of sums."""
    rows = [(key, [counts[key, state] for state in STATES]) for key in keys]
    rows.append(("all", [sum(column) for column in zip(*(row for _, row in rows), strict=True)]))
    lines = [f"| {name} | lines | {' | '.join(STATES)} |", "| --- |" + " ---: |" * (len(STATES) + 1)]
    lines += [f"| {key} | {sum(row)} | {' | '.join(map(str, row))} |" for key, row in rows]
    return "\n".join(lines) + "\n"


def rewritten(page: str) -> str:
    """The page with counts, kinds and quotations as the seeds and its own lines make them."""
    known = {element.id: element for element in all_elements()}

    def fresh(match: re.Match[str]) -> str:
        entry = Entry(match[1], *cells_of(match[2]))
        element = known.get(entry.id)
        if element is None:
            return match[0]
        return row_of(Entry(entry.id, element.kind, quotation_of(element), entry.state, entry.where, entry.reason))

    page = ROW.sub(fresh, page)
    return SUMMARY.sub(lambda _: summary_of(entries_of(page)), page)


def problems_of(page: str) -> list[str]:
    """What is missing, unknown, doubled, unfounded or stale in the page."""
    entries = entries_of(page)
    listed = Counter(entry.id for entry in entries)
    elements = all_elements()
    known = {element.id for element in elements}
    return [
        *(f"no line for {e.id} ({e.kind}): {e.text}" for e in elements if e.id not in listed),
        *(f"{name} is nothing that the seeds say" for name in listed if name not in known),
        *(f"{name} has {count} lines" for name, count in listed.items() if count > 1),
        *(f"{entry.id} {problem}" for entry in entries for problem in faults_of(entry)),
        *(["counts or quotations are stale: python -m tools.seed_index --write"] if rewritten(page) != page else []),
    ]


def faults_of(entry: Entry) -> Iterator[str]:
    """What is wrong with a line by itself."""
    tests, names = TEST.findall(entry.reason), NAME.findall(f"{entry.where} {entry.reason}")
    if entry.state not in STATES:
        yield f"has no state, but {entry.state!r}"
    if entry.state == "holds" and not (tests and names):
        yield "holds, but names no place or no test"
    if entry.state == "differs" and not entry.reason.startswith("because "):
        yield "differs, but does not say why"
    if entry.state in ("planned", "text") and not entry.reason:
        yield f"is {entry.state}, but says nothing about it"
    yield from (f"names a test that does not exist: {file}::{test}" for file, test in tests if not has_test(file, test))
    yield from (f"names what does not exist: {name}" for name in names if not exists(name))


def has_test(file: str, test: str) -> bool:
    """Whether pytest would collect that test from tests/FILE: a function of its module, not one inside another."""
    return test in tests_of(file)


@cache
def tests_of(file: str) -> frozenset[str]:
    """The tests of a file that pytest reads."""
    path = REPOSITORY / "tests" / file
    if not path.is_file() or not path.name.startswith("test_"):
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_")


def exists(name: str) -> bool:
    """Whether a path, a command of gpufleet, or a module with or without a name inside it is there."""
    if name.startswith("gpufleet "):
        return name.split()[1] in {verb.name for verb in VERBS}
    return module_exists(name) if name.startswith("gpufleet.") else (REPOSITORY / name).exists()


def module_exists(name: str) -> bool:
    """Whether gpufleet.a.b is a module, or a name that a module gpufleet.a defines or passes on."""
    path = REPOSITORY / "src" / Path(*name.split("."))
    if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
        return True
    homes = [path.parent.with_suffix(".py"), path.parent / "__init__.py"]
    defined = re.compile(rf"^(?:def |class |    |from .* import .*)?\b{re.escape(path.name)}\b", re.MULTILINE)
    return any(home.is_file() and defined.search(home.read_text(encoding="utf-8")) for home in homes)


def main(arguments: list[str]) -> int:
    """List, rewrite or check."""
    if "--list" in arguments:
        print("\n".join(f"{e.id}\t{e.kind}\t{readable(e.document, e.text)}" for e in all_elements()))
        return 0
    if "--write" in arguments:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    problems = problems_of(PAGE.read_text(encoding="utf-8"))
    print("\n".join(problems) or "Every line of the seeds has its line in docs/seeds.md.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
