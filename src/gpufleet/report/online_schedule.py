"""Policies side by side on the same jobs, and the best of them."""

from __future__ import annotations

from gpufleet.report.numbers import amount, duration, percent, several, significant, usd
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.schedule import OnlineSchedule, PolicyOutcome

WORDS = {
    "fifo": "first come first served, nobody overtakes on a pool that somebody waits for",
    "sjf": "the shortest that fits, as expected",
    "edf": "the earliest deadline that fits",
    "las": "least attained service (Tiresias): who had little GPU-time first, others pause where they may",
    "backfill": "EASY: first come first served, others fill holes that do not put off the first that waits",
    "ours": "at each arrival and end a search over all jobs known by then",
}


def online_page(replay: OnlineSchedule) -> Page:
    """The best one and why; all of them; what they are."""
    rows = [outcome.model_dump(exclude={"runs"}) for outcome in replay.outcomes]
    best = next(n for n, outcome in enumerate(replay.outcomes) if outcome.policy == replay.best)
    table = Table(columns(replay), rows, chosen=best)
    return Page(headline(replay), [table, policies_table(replay)], notes(replay))


def columns(replay: OnlineSchedule) -> list[Column]:
    """What is told of each policy; cost and GPUs of one's own only where there are any."""
    is_paid = any(outcome.usd for outcome in replay.outcomes)
    return [
        Column("policy", "policy"),
        Column("mean_completion_s", "done in", duration, align="right"),
        Column("p95_completion_s", "p95", duration, align="right"),
        Column("late_weighted_hours", "late h", significant, align="right"),
        Column("late_jobs", "late", amount, align="right"),
        Column("used_ratio", "used", percent, align="right"),
        Column("fairness", "fair", lambda index: f"{index:.2f}", align="right"),
        Column("usd", "cost", usd, align="right", where="everywhere" if is_paid else "data"),
        Column("preemptions", "pauses", amount, align="right"),
        Column("makespan_s", "all done", where="data"),
    ]


def headline(replay: OnlineSchedule) -> str:
    """Which policy is best, and by what."""
    best = replay.of(replay.best)
    if replay.runner_up is None:
        return f"{replay.best}: {figure(best, replay.best_by)} over {several(replay.jobs, 'job')}."
    second = replay.of(replay.runner_up)
    if figure(best, replay.best_by) == figure(second, replay.best_by):
        return f"{replay.best} and {replay.runner_up} are best: {figure(best, replay.best_by)} each."
    against = f"{figure(second, replay.best_by)} of {replay.runner_up}"
    return f"{replay.best} is best: {figure(best, replay.best_by)} against {against}."


def figure(outcome: PolicyOutcome, name: str) -> str:
    """A figure in words."""
    value = outcome.model_dump()[name]
    if name == "usd":
        return usd(float(value))
    if name == "late_weighted_hours":
        return f"{significant(value)} late hours by priority"
    return f"{duration(value)} {'on average' if name == 'mean_completion_s' else 'at p95'}"


def policies_table(replay: OnlineSchedule) -> Table:
    """What each policy does."""
    columns = [Column("policy", "policy"), Column("is", "who runs", wraps=True)]
    rows = [(outcome.policy, WORDS[outcome.policy]) for outcome in replay.outcomes]
    return Table.of_cells(columns, rows, "Policies", folded=True)


def notes(replay: OnlineSchedule) -> list[str]:
    """How figures are to be read."""
    unit = "users" if replay.users > 1 else "jobs"
    found = [
        f"Done in: from arrival to end. Fair: Jain's index of the slowdown of {unit}; 1 is equal. Used: of "
        f"{several(replay.gpus_owned, 'GPU')} of one's own until the last job ends."
    ]
    if not replay.has_deadlines:
        found.append("No job has a deadline, so completion decides, and ours shortens it.")
    if replay.spread:
        found.append(f"Jobs take up to {percent(replay.spread)} less or more than expected, drawn by seed.")
    if not replay.can_pause and any(outcome.policy == "las" for outcome in replay.outcomes):
        found.append("No job is preemptible, so las can let nobody pause.")
    return [*found, *replay.notes]
