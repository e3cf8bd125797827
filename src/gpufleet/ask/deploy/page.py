"""The files that start a plan, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.ask.deploy.shape import DeployedPlan
from gpufleet.ask.deploy.targets import target_named
from gpufleet.report.page import Column, Command, Page, Table
from gpufleet.results.deployed import DeployedStep


def deployed_page(found: DeployedPlan, folder: str | None = None) -> Page:
    """What was written, and the commands in their order."""
    rows = [{"file": file.name, "what": file.what} for file in found.files]
    files = Table([Column("file", "file"), Column("what", "what it is")], rows, "Files")
    steps = Table([], [], "In this order", empty="", listing=list(step_lines(found.steps)))
    return Page(headline(found, folder), [files, steps], found.notes)


def step_lines(steps: Sequence[DeployedStep]) -> Iterator[Command]:
    """Each command below what it is for."""
    for step in steps:
        yield [[f"# {step.purpose}"]]
        yield [[word] for word in step.command.split(" ")]


def headline(found: DeployedPlan, folder: str | None) -> str:
    """What the files start, and what that costs."""
    where = "" if folder is None else f" in {folder}"
    title, machines = target_named(found.target).title, "; ".join(found.machines)
    return f"{len(found.files)} files{where} start {', '.join(found.models)} on {title}: {machines}."
