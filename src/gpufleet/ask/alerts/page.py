"""The files that watch a plan, as a page."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.ask.alerts.shape import AlertFiles
from gpufleet.ask.alerts.targets import target_named
from gpufleet.report.page import Column, Command, Page, Table


def alerts_page(found: AlertFiles, folder: str | None = None) -> Page:
    """What is watched, what was written, and the commands in their order."""
    several = len({row.copies for row in found.alerts}) > 1
    columns = [Column("alert", "alert"), Column("severity", "severity"), Column("summary", "when")]
    if several:
        columns.insert(0, Column("copies", "copies"))
    rows = [
        {"alert": row.name, "severity": row.severity, "summary": row.summary, "copies": row.copies}
        for row in found.alerts
    ]
    files = [{"file": file.name, "what": file.what} for file in found.files]
    steps = Table([], [], "In this order", empty="", listing=list(step_lines(found)))
    listed = Table([Column("file", "file"), Column("what", "what it is")], files, "Files")
    missing = [f"Not watched, or misleading: {line}" for line in found.unwatched]
    return Page(headline(found, folder), [Table(columns, rows, "Alerts"), listed, steps], [*missing, *found.notes])


def step_lines(found: AlertFiles) -> Iterator[Command]:
    """Each command below what it is for."""
    for step in found.steps:
        yield [[f"# {step.purpose}"]]
        yield [[word] for word in step.command.split(" ")]


def headline(found: AlertFiles, folder: str | None) -> str:
    """What the files watch."""
    where = "" if folder is None else f" in {folder}"
    title = target_named(found.target).title
    own = any(row.fires_when_absent for row in found.alerts)
    twins = f"{found.num_twins} of them also" if own else f"and {found.num_twins} that fire"
    kinds = f"{len(found.alerts)} alerts, {twins} where a metric is absent"
    return f"{len(found.files)} files{where} for {title} watch {', '.join(found.models)}: {kinds}."
