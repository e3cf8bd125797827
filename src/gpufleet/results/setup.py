"""What a user's settings are, and what an installation has."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Result

FINE, REMARK, MISSING = "ok", "note", "missing"


class Setting(Result):
    """One preference: its value, where it was set (default when nowhere), and what it says."""

    key: str
    value: str
    origin: str
    says: str


class SettingsFile(Result):
    """A file that is looked for."""

    path: str
    is_there: bool


class Settings(Result):
    """Every preference as it holds now; a flag on the command line replaces each."""

    schema_version: str = SCHEMA_VERSION
    settings: list[Setting]
    files: list[SettingsFile]
    notes: list[str] = []


class Check(Result):
    """One thing that an installation has or lacks; `hint` says how to get what is missing."""

    name: str
    status: str
    found: str
    hint: str = ""


class Diagnosis(Result):
    """What was looked at, in order."""

    schema_version: str = SCHEMA_VERSION
    checks: list[Check]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing that is needed is missing."""
        return not self.missing

    @property
    def remarks(self) -> list[str]:
        """Names of what is there and not as it should be."""
        return [check.name for check in self.checks if check.status == REMARK]

    @property
    def missing(self) -> list[str]:
        """Names of what is needed and missing."""
        return [check.name for check in self.checks if check.status == MISSING]
