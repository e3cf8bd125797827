"""A log of a job on spot beside its policy, as a page."""

from __future__ import annotations

from gpufleet.ask.spot.job_shape import SpotAudit
from gpufleet.report.numbers import count, duration, percent, several
from gpufleet.report.page import Column, Page, Table

MOST_SHOWN = 12


def spot_audit_page(audit: SpotAudit) -> Page:
    """Whether the policy was followed, and where not."""
    return Page(headline(audit), [] if audit.is_followed else [deviations_table(audit)], notes(audit))


def headline(audit: SpotAudit) -> str:
    """Followed or not, and how it ended."""
    ended = "still running" if audit.ended_s is None else ended_words(audit.ended_s, audit.deadline_s)
    if audit.is_followed:
        return f"The policy was followed in all {several(audit.num_ticks, 'tick')}; {ended}."
    return (
        f"The policy was not followed in {count(len(audit.deviations))} of {several(audit.num_ticks, 'tick')}; {ended}."
    )


def ended_words(ended_s: float, deadline_s: float) -> str:
    """When the work was done, by the deadline."""
    late = ended_s - deadline_s
    return f"done after {duration(ended_s)}, " + (f"{duration(late)} late" if late > 0 else f"{duration(-late)} early")


def deviations_table(audit: SpotAudit) -> Table:
    """The first ticks that differ."""
    columns = [
        Column("elapsed_s", "after", duration, align="right"),
        Column("has_machine", "spot there", lambda there: "yes" if there else "no"),
        Column("slack_s", "slack", duration, align="right"),
        Column("ran", "ran"),
        Column("should", "policy says"),
    ]
    rows = [each.model_dump() for each in audit.deviations[:MOST_SHOWN]]
    more = len(audit.deviations) - len(rows)
    return Table(columns, rows, "Ticks that differ", [f"and {count(more)} more"] if more else [])


def notes(audit: SpotAudit) -> list[str]:
    """What else the log says."""
    found = [
        f"{several(audit.losses, 'machine')} lost; {percent(audit.on_demand_ratio)} of the machine time on demand."
    ]
    if audit.net_broken:
        found.append(
            f"Warning: in {several(audit.net_broken, 'tick')} the policy wanted on demand and did not get it: the "
            "deadline was at risk."
        )
    return found
