"""Files of a folder that a plan is made of, and commands in their order."""

from __future__ import annotations

from gpufleet.results.base import Result


class DeployedFile(Result):
    """One file of the folder, by its path in it, and what it is."""

    name: str
    text: str
    what: str = ""


class DeployedStep(Result):
    """A command, and what it is for or has to show."""

    command: str
    purpose: str
