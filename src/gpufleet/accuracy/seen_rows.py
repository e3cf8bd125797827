"""Which measurements the shipped constants were fitted to: `data/seen/`, by `tools/seen_rows.py`.

A row is known again by its figures, its GPU and its model; a source by who published it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from gpufleet.catalog.table_files import SHIPPED
from gpufleet.domain.arrays import AnyArray
from gpufleet.inputs.measurements import KINDS, MeasurementRow

SEEN = SHIPPED / "seen"
FIGURES, PUBLISHERS = SEEN / "figures.npy", SEEN / "publishers.npy"
ROW, PUBLISHER, NEVER = "row of ours", "source of ours", "never seen"
MARK_BYTES = 8
ARXIV = re.compile(r"arxiv[ :]*(\d{4}\.\d{4,5})", re.IGNORECASE)
HOSTS = re.compile(r"^(https?://)?(www\.)?(github\.com/)?", re.IGNORECASE)
WITHIN = re.compile(r"[;#@:\s]")
COUNTED = "param_counts"
COLUMNS = {kind.name: sorted(kind.any_of) for kind in KINDS if kind.name != COUNTED}


def publisher_of(source: str) -> str:
    """Who published a measurement: the paper, the repository, or the first two parts of an address.

    >>> publisher_of("https://github.com/NVIDIA/TensorRT-LLM docs/source/performance.md@5955b8af")
    'nvidia/tensorrt-llm'
    >>> publisher_of("arXiv 2201.11990 sec 2.4 (via cli99/llm-analysis)")
    'arxiv 2201.11990'
    """
    paper = ARXIV.match(source)
    if paper is not None:
        return f"arxiv {paper.group(1)}"
    return "/".join(WITHIN.split(HOSTS.sub("", source))[0].casefold().split("/")[:2])


def marks_of(kind: str, row: MeasurementRow) -> list[int]:
    """What each figure of a row is known again by."""
    where = f"{kind}|{row.text('gpu_id', 'gpu')}|{row.text('model_id', 'model')}".casefold()
    stated = ((column, row.text(column)) for column in COLUMNS[kind])
    return [mark_of(f"{where}|{column}|{six_digits(cell)}") for column, cell in stated if cell]


def mark_of(text: str) -> int:
    """Sixty-four bits by which a text is known again."""
    return int.from_bytes(blake2b(text.encode(), digest_size=MARK_BYTES).digest(), "big")


def six_digits(cell: str) -> str:
    """A number however it is written; a word as it is.

    >>> six_digits("12.50"), six_digits("1.25e1"), six_digits("OOM")
    ('12.5', '12.5', 'oom')
    """
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell.casefold()


def how_seen(kind: str, row: MeasurementRow) -> str | None:
    """Whether fits saw the figures of a row, others of its source, or neither; None of kinds that no fit takes."""
    if kind not in COLUMNS:
        return None
    marks = marks_of(kind, row)
    if marks and known_figures().issuperset(marks):
        return ROW
    return PUBLISHER if mark_of(f"{kind} {publisher_of(row.text('source'))}") in known_publishers() else NEVER


@lru_cache(maxsize=1)
def known_figures() -> frozenset[int]:
    """Marks of every figure that a fit has seen."""
    return frozenset(np.load(FIGURES).tolist())


@lru_cache(maxsize=1)
def known_publishers() -> frozenset[int]:
    """Marks of kinds of file with who published such rows."""
    return frozenset(np.load(PUBLISHERS).tolist())


def tables_of(rows: Iterable[tuple[str, MeasurementRow]]) -> tuple[AnyArray, AnyArray]:
    """Marks of figures and of publishers of the rows that fits see, each with its kind of file."""
    figures: set[int] = set()
    publishers: set[int] = set()
    for kind, row in rows:
        figures.update(marks_of(kind, row))
        if row.text("source"):
            publishers.add(mark_of(f"{kind} {publisher_of(row.text('source'))}"))
    return np.array(sorted(figures), dtype=np.uint64), np.array(sorted(publishers), dtype=np.uint64)
