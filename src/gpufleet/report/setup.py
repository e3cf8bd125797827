"""The answers of `gpufleet config` and `gpufleet doctor` as pages."""

from __future__ import annotations

from gpufleet.report.page import Column, Page, Table
from gpufleet.results.setup import Diagnosis, Settings

PRECEDENCE = "Options take precedence, then the environment, the project's file, your file, the defaults."


def settings_page(settings: Settings) -> Page:
    """Every preference with its origin, and the files that are looked for."""
    columns = [
        Column("key", "key"),
        Column("value", "value", wraps=True),
        Column("origin", "set in", wraps=True),
        Column("says", "says", wraps=True, priority=1),
    ]
    files = [
        Column("path", "file, in order of precedence"),
        Column("is_there", "", lambda is_there: "found" if is_there else "-"),
    ]
    tables = [
        Table(columns, [setting.model_dump() for setting in settings.settings]),
        Table(files, [file.model_dump() for file in settings.files]),
    ]
    stated = [s.key for s in settings.settings if s.origin != "default"]
    headline = f"Set by you: {', '.join(stated)}." if stated else "No preferences set; defaults apply."
    return Page(headline, tables, [*settings.notes, PRECEDENCE])


def diagnosis_page(diagnosis: Diagnosis) -> Page:
    """Every check, and what to do about what is missing."""
    columns = [
        Column("name", "checked"),
        Column("status", "is"),
        Column("found", "found", wraps=True),
        Column("hint", "hint", where="data"),
    ]
    rows = [check.model_dump() for check in diagnosis.checks]
    hints = [f"{check.name}: {check.hint}" for check in diagnosis.checks if check.hint]
    return Page(verdict(diagnosis), [Table(columns, rows)], hints)


def verdict(diagnosis: Diagnosis) -> str:
    """The state of the installation in one sentence."""
    if diagnosis.is_healthy:
        noted = ", ".join(diagnosis.remarks)
        return (
            f"Everything that is needed is here; see below: {noted}." if noted else "Everything that is needed is here."
        )
    return f"Missing: {', '.join(diagnosis.missing)}."
