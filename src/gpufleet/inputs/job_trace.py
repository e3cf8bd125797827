"""Jobs that ran, as public traces are written; the form is told by the columns.

form     columns
plain    arrival_s, gpus, duration_s, and where known deadline_s, weight, user, preemptible
alibaba  num_gpu, gpu_milli, creation_time, scheduled_time, deletion_time      (pods of cluster-trace-gpu-v2023)

Rows of Alibaba's that ask for no GPU, or did not run, are left out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpufleet.domain.schedule import WHOLE_MILLI
from gpufleet.errors import UsageError, named
from gpufleet.files import read_text_file
from gpufleet.questions.schedule import LONGEST_JOB_S, MOST_JOBS, milli_gpus, yes_or_no
from gpufleet.records import dataclass
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "a trace of jobs", 100 * MB
LATEST_S = 1e11
"""Of a moment, in seconds: a clock that counts from 1970 is there in some 3,000 years."""
PLAIN = ("arrival_s", "gpus", "duration_s")
ALIBABA = ("num_gpu", "gpu_milli", "creation_time", "scheduled_time", "deletion_time")
Cells = Mapping[str, str]


@dataclass(frozen=True)
class TracedJob:
    """One job of a trace: when it came, what it took, until when it should have been done."""

    arrival_s: float
    milli_gpus: int
    duration_s: float
    deadline_s: float = math.inf
    weight: float = 1.0
    user: str = ""
    can_pause: bool = False


def read_job_trace(path: str | Path, most: int = MOST_JOBS) -> list[TracedJob]:
    """All jobs of a file, from the first arrival on."""
    with named(f"{WHAT} {str(path)!r}"):
        return parse_job_trace(read_text_file(path, WHAT, LARGEST_BYTES), most)


def parse_job_trace(text: str, most: int = MOST_JOBS) -> list[TracedJob]:
    """All jobs of a text.

    >>> parse_job_trace("arrival_s,gpus,duration_s\\n0,1,3600\\n60,0.5,7200")[1].milli_gpus
    500
    """
    lines = csv.DictReader(text.splitlines())
    try:
        columns = lines.fieldnames or ()
        read = next(
            (form for needed, form in ((PLAIN, plain_job), (ALIBABA, alibaba_job)) if set(needed) <= {*columns})
        )
    except (csv.Error, StopIteration):
        expected = f"columns {', '.join(PLAIN)}, or {', '.join(ALIBABA)}"
        raise UsageError(f"{WHAT} lacks columns", found=text.partition("\n")[0], expected=expected) from None
    found = [job for job in (read(row) for row in rows_of(lines)) if job is not None]
    if not 1 <= len(found) <= most:
        raise UsageError(f"{WHAT} holds {len(found):,} jobs", expected=f"1 to {most:,}")
    return sorted(found, key=lambda job: job.arrival_s)


def rows_of(lines: csv.DictReader[str]) -> Iterator[Cells]:
    """Every row; what is no CSV is refused."""
    try:
        for row in lines:
            with named(f"line {lines.line_num}"):
                if None in row or None in row.values():
                    raise UsageError("wrong number of cells", expected=f"{len(lines.fieldnames or ())}")
                yield row
    except csv.Error as error:
        raise UsageError(f"{WHAT} is no CSV", found=str(error)) from None


def plain_job(row: Cells) -> TracedJob | None:
    """A row of the plain form."""
    deadline = row.get("deadline_s") or ""
    pauses = row.get("preemptible") or "no"
    return TracedJob(
        arrival_s=number_of(row, "arrival_s", 0.0),
        milli_gpus=milli_gpus(row["gpus"], "gpus"),
        duration_s=number_of(row, "duration_s", 1.0, LONGEST_JOB_S),
        deadline_s=number_of(row, "deadline_s", -LATEST_S) if deadline else math.inf,
        weight=number_of(row, "weight", 0.0, 1e6) if row.get("weight") else 1.0,
        user=row.get("user") or "",
        can_pause=yes_or_no(pauses, "preemptible"),
    )


def alibaba_job(row: Cells) -> TracedJob | None:
    """A pod that asks for a GPU and ran; its class of service is whose it is."""
    gpus = number_of(row, "num_gpu", 0.0)
    if not gpus or not row["scheduled_time"] or not row["deletion_time"]:
        return None
    took = number_of(row, "deletion_time", 0.0) - number_of(row, "scheduled_time", 0.0)
    milli = number_of(row, "gpu_milli", 1.0, WHOLE_MILLI) if gpus == 1 else gpus * WHOLE_MILLI
    if not 0 < took <= LONGEST_JOB_S:
        return None
    return TracedJob(number_of(row, "creation_time", 0.0), round(milli), took, user=row.get("qos") or "")


def number_of(row: Cells, column: str, least: float, most: float = LATEST_S) -> float:
    """A cell that holds a number in its range."""
    try:
        found = float(row[column])
    except ValueError:
        found = math.nan
    if not least <= found <= most or math.isinf(found):
        raise UsageError(f"{column} cannot be read", found=row[column], expected=f"a number from {least:g} to {most:g}")
    return found
