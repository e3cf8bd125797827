"""The files that start a plan, as a page."""

from __future__ import annotations

from gpufleet.ask.deploy.shape import DeployedPlan
from gpufleet.report.page import Column, Page, Table


def deployed_page(found: DeployedPlan) -> Page:
    """What was written, and the commands in their order."""
    rows = [{"file": file.name, "lines": file.text.count("\n")} for file in found.files]
    files = Table([Column("file", "file"), Column("lines", "lines", align="right")], rows, "Files")
    steps = Table([Column("step", "", wraps=True)], [{"step": step} for step in found.steps], "In this order")
    return Page(headline(found), [files, steps], found.notes)


def headline(found: DeployedPlan) -> str:
    """What the files start, and what that costs."""
    where = f" in {found.folder}" if found.folder else ""
    machines = "; ".join(found.machines)
    return f"{len(found.files)} files{where} start {', '.join(found.models)} on {found.target}: {machines}."
