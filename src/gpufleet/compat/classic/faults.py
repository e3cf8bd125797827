"""All faults of one row of a config, told together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpufleet.errors import UsageError

MOST_TOLD = 9
OWN_FOLDER = (
    "Figures of your own go into a folder of their own, which is laid over the shipped files: --config-dir DIR."
)
Read = TypeVar("Read")


class SeveralFaults(UsageError):
    """Two or more faults of one row; `faults` has each by itself."""

    def __init__(self, what: str, faults: Sequence[UsageError]) -> None:
        self.faults = tuple(faults)
        told = [f"({number}) {fault}" for number, fault in enumerate(self.faults[:MOST_TOLD], start=1)]
        left = len(self.faults) - len(told)
        more = [f"{left} more."] if left else []
        super().__init__(f"{what} has {len(self.faults)} faults", hint=" ".join([*told, *more]))


class Faults:
    """Collects the faults of a row while all of it is read."""

    def __init__(self) -> None:
        self._found: list[UsageError] = []

    def add(self, fault: UsageError) -> None:
        """One more fault, or those of a part of the row."""
        self._found += fault.faults if isinstance(fault, SeveralFaults) else [fault]

    def reading(self, read: Callable[[], Read]) -> Read | None:
        """What `read` gives; None where that is a fault, which is kept."""
        try:
            return read()
        except UsageError as fault:
            self.add(fault)
            return None

    def refuse(self, what: str) -> None:
        """Raise the fault, or all of them as one."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise SeveralFaults(what, self._found)
