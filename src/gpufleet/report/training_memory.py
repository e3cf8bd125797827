"""The memory of a training step as a table: a bar for each term, and where each comes from."""

from __future__ import annotations

from gpufleet.records import dataclass
from gpufleet.report.numbers import count, gib, significant
from gpufleet.report.page import Column, Columns, Table, column, number
from gpufleet.report.range_bars import AIR, drawn_bar
from gpufleet.results.training import TrainingMemoryFigures
from gpufleet.units import GIB

TERMS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "adapters": "adapters and their states",
    "gathered": "gathered blocks",
    "buffers": "gradient buckets",
    "activations": "activations",
    "logits": "logits",
    "step": "copies of the optimizer",
    "reused": "room used twice",
    "allocator": "allocator",
    "context": "context of the driver",
    "communication": "communication buffers",
    "fragmentation": "fragmentation",
}
BAR_WIDTH = 34


def memory_table(memory: TrainingMemoryFigures, machine: str = "") -> Table:
    """Every term of the fullest GPU with a bar; the last row is all of it against what the GPU has.

    `machine`: the type whose memory holds what lies outside of its GPUs, where it is not named elsewhere.
    """
    total, limit = memory.total_bytes, memory.device_bytes
    room, widest = f"{limit / GIB:.1f} GiB", max(total.high or total.value, limit)

    def drawn(part: MemoryPart) -> str:
        return bar(part.value, part.high, widest, limit)

    columns: Columns[MemoryPart] = [
        column("memory of the fullest GPU", lambda part: part.name, key="name"),
        number("GiB", lambda part: f"{part.value / GIB:,.2f}", where="text"),
        column(f"of {room} (|)", drawn, key="bar", where="text", is_drawing=True),
        number("range", lambda part: part.range_words, priority=1, where="text"),
        column("bytes", lambda part: part.value, where="data"),
        column("low_bytes", lambda part: part.low, where="data"),
        column("high_bytes", lambda part: part.high, where="data"),
    ]
    parts = [
        *(MemoryPart(TERMS.get(t.name, t.name), t.value, t.low, t.high) for t in memory.terms if t.value),
        MemoryPart("total", total.value, total.low, total.high),
    ]
    bars = [part_svg(part, AIR * widest, limit) for part in parts]
    return Table.of(parts, columns, notes=host_lines(memory, machine), bars=bars, bars_header=f"of {room} (line)")


def host_lines(memory: TrainingMemoryFigures, machine: str) -> list[str]:
    """What lies in host memory, where anything does, and what the machine needs for that."""
    if not memory.host_bytes:
        return []
    needs = f"{gib(memory.host_need_bytes)}, as {machine} has" if machine and memory.fits_host else host_text(memory)
    return [f"{gib(memory.host_bytes)} a GPU lie in host memory beside it: a machine needs {needs}."]


@dataclass(frozen=True)
class MemoryPart:
    """A part of the memory with its range, where it has one."""

    name: str
    value: float
    low: float | None
    high: float | None

    @property
    def range_words(self) -> str:
        """The range in GiB without its unit; nothing where its ends do not differ."""
        if self.low is None or self.high is None or self.low >= self.high:
            return ""
        return f"{significant(self.low / GIB, 2)}-{significant(self.high / GIB, 2)}"


def part_svg(part: MemoryPart, widest: float, limit: float) -> str:
    """The bar of a page of HTML; room that is used twice draws none."""
    if part.value <= 0:
        return ""
    high = part.value if part.high is None else part.high
    words = f"{part.name}: {gib(part.value)} of {gib(limit)}"
    return drawn_bar(words, 0.0, part.value / widest, high / widest, limit / widest)


def host_text(memory: TrainingMemoryFigures) -> str:
    """What a machine needs of its memory, and has where that is stated: '37.9 of 64.0 GiB'."""
    if memory.host_memory_bytes is None:
        return f"{gib(memory.host_need_bytes)}, and nobody states what it has"
    return f"{memory.host_need_bytes / GIB:,.1f} of {memory.host_memory_bytes / GIB:,.1f} GiB"


def bar(value: float, high: float | None, widest: float, limit: float, width: int = BAR_WIDTH) -> str:
    """A bar as long as its share: '#' up to the value, '-' from there to the high end, '|' where memory ends.

    >>> bar(6.0, 9.0, 16.0, 12.0, width=16)
    '######---   |'
    >>> bar(14.0, 16.0, 16.0, 12.0, width=16)
    '############|#--'
    """
    ends = (max(each, 0.0) / widest * width for each in (value, value if high is None else high, limit))
    filled, reached, end = map(round, ends)
    drawn = ("#" * filled + "-" * (reached - filled)).ljust(end)
    return drawn[:end] + "|" + drawn[end + 1 :]


def terms_table(memory: TrainingMemoryFigures) -> Table:
    """Every term with its formula, the numbers put in and its source."""
    terms = [(TERMS.get(t.name, t.name), t) for t in memory.terms if t.value]
    columns = [Column("name", "memory term"), Column("value", "bytes", count, "right"), Column("grade", "grade")]
    rows = [(name, t.value, t.grade) for name, t in terms]
    notes = [f"{name}: {t.formula}; {t.inputs}. Source: {t.source}." for name, t in terms]
    return Table.of_cells(columns, rows, "Memory: formulas and numbers", notes, folded=True)
