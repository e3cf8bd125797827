"""What is typed to start one replica of an answer."""

from __future__ import annotations

from gpufleet.results.base import Result


class Launch(Result):
    """The command that starts one replica as the answer assumes it, quoted for a shell.

    `arguments` are its words, `groups` how many words stand together (a flag with its value). Where `options_file` is
    named, a file with `options` must lie beside it first. `documented` names the documentation of the flags,
    `benchmark` the command that measures the replica while it runs, where the engine has one.
    `replicas_per_machine`: so many are started on each machine; None where the answer knows of no machine.
    """

    engine: str
    documented: str
    benchmark: str | None = None
    command: str
    arguments: list[str]
    groups: list[int]
    options_file: str | None = None
    options: str | None = None
    replicas_per_machine: int | None = None
    notes: list[str] = []
