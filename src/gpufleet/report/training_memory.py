"""The memory of a training step as a table: a bar for each term, and where each comes from."""

from __future__ import annotations

from gpufleet.records import dataclass
from gpufleet.report.numbers import count, gib, significant
from gpufleet.report.page import Column, Row, Table
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


def memory_table(memory: TrainingMemoryFigures) -> Table:
    """Every term of the fullest GPU with a bar; the last row is all of it against what the GPU has."""
    room = f"{memory.device_bytes / GIB:.1f} GiB"
    columns = [
        Column("name", "memory of the fullest GPU"),
        Column("size", "GiB", align="right", where="text"),
        Column("bar", f"of {room} (|)", where="text", is_drawing=True),
        Column("range", "range", align="right", priority=1, where="text"),
        *(Column(key, key, where="data") for key in ("bytes", "low_bytes", "high_bytes")),
    ]
    total = memory.total_bytes
    widest = max(total.high or total.value, memory.device_bytes)
    parts = [
        *(MemoryPart(TERMS.get(t.name, t.name), t.value, t.low, t.high) for t in memory.terms if t.value),
        MemoryPart("total", total.value, total.low, total.high),
    ]
    rows = [part_row(part, widest, memory.device_bytes) for part in parts]
    bars = [part_svg(part, AIR * widest, memory.device_bytes) for part in parts]
    notes = [f"{gib(memory.host_bytes)} a GPU lie in host memory beside it."] if memory.host_bytes else []
    return Table(columns, rows, notes=notes, bars=bars, bars_header=f"of {room} (line)")


@dataclass(frozen=True)
class MemoryPart:
    """A part of the memory with its range, where it has one."""

    name: str
    value: float
    low: float | None
    high: float | None


def part_row(part: MemoryPart, widest: float, limit: float) -> Row:
    """A row with its bar in characters."""
    has_range = part.low is not None and part.high is not None and part.low < part.high
    ends = (significant((end or 0.0) / GIB, 2) for end in (part.low, part.high))
    return {
        "name": part.name,
        "size": f"{part.value / GIB:,.2f}",
        "bar": bar(part.value, part.high, widest, limit),
        "range": "-".join(ends) if has_range else "",
        "bytes": part.value,
        "low_bytes": part.low,
        "high_bytes": part.high,
    }


def part_svg(part: MemoryPart, widest: float, limit: float) -> str:
    """The bar of a page of HTML; room that is used twice draws none."""
    if part.value <= 0:
        return ""
    high = part.value if part.high is None else part.high
    words = f"{part.name}: {gib(part.value)} of {gib(limit)}"
    return drawn_bar(words, 0.0, part.value / widest, high / widest, limit / widest)


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
    rows = [{"name": name, "value": t.value, "grade": t.grade} for name, t in terms]
    notes = [f"{name}: {t.formula}; {t.inputs}. Source: {t.source}." for name, t in terms]
    return Table(columns, rows, "Memory: formulas and numbers", notes, folded=True)
