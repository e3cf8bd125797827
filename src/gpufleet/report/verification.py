"""Whether a plan holds when its requests are replayed: planned and replayed figures side by side."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.report.numbers import duration, percent, plural, usd_per_hour
from gpufleet.report.page import Column, Table
from gpufleet.report.rented import short_machines
from gpufleet.report.words import exact_time
from gpufleet.results.verification import DrawnSpeeds, Verification, VerifiedDeployment


def verification_table(found: Verification) -> Table:
    """A row for each objective of each deployment under each kind of arrivals."""
    columns = [
        Column("machines", "machines", wraps=True),
        Column("arrivals", "arrivals"),
        Column("objective", "objective"),
        Column("planned", "planned", align="right"),
        Column("replayed", "replayed", align="right"),
        Column("verdict", "verdict"),
    ]
    rows = [
        (
            *(("", "") if i else (short_machines(d), d.arrivals)),
            f"{o.replayed.label} < {exact_time(o.replayed.limit_s)}",
            duration(o.planned.value),
            "no answer" if o.replayed.figure is None else duration(o.replayed.figure.value),
            "kept" if o.replayed.is_kept else "broken",
        )
        for d in found.deployments
        for i, o in enumerate(d.objectives)
    ]
    title, empty = "Verified: requests replayed one by one", "No limit was set; the load is carried."
    return Table.of_cells(columns, rows, title, list(notes(found)), empty=empty)


def notes(found: Verification) -> Iterator[str]:
    """What it takes where a limit broke, and how it was replayed."""
    for deployment in found.deployments:
        if not deployment.is_kept:
            yield needed_words(deployment)
    if found.drawn is not None:
        yield from drawn_words(found.drawn)
    number = found.deployments[0].num_requests if found.deployments else 0
    yield (
        f"{number:,} requests at the planned rate, dealt out by "
        f"{found.routing.replace('_', ' ')}; steps as long as expected (seed {found.seed})."
    )


def sized_line(found: Verification) -> list[str]:
    """What draws of the engine's speed made of the plan: which machines in place of which, and how surely they hold."""
    drawn = found.drawn
    if drawn is None or drawn.planned is None:
        return []
    now, before = short_machines(found.deployments[0]), short_machines(drawn.planned)
    price = usd_per_hour(drawn.planned.usd_per_hour)
    draws = f"{drawn.kept_draws} of {drawn.num_draws} draws of the engine's speed"
    return [f"{now} instead of {before} ({price}): every limit holds in {draws}."]


def drawn_words(drawn: DrawnSpeeds) -> Iterator[str]:
    """How surely the answer holds where its engine is faster or slower than expected, and what fewer machines do."""
    wanted, draws = percent(drawn.confidence), f"{drawn.num_draws} draws of the engine's speed"
    is_enough = drawn.kept_draws >= drawn.confidence * drawn.num_draws
    if is_enough:
        yield f"Every limit holds in {drawn.kept_draws} of {draws} ({wanted} wanted)."
    else:
        yield f"Every limit holds in only {drawn.kept_draws} of {draws}: replays do not confirm {wanted}."
    if drawn.sufficient_instance_count is None or drawn.sufficient_usd_per_hour is None:
        return
    machines, price = plural(drawn.sufficient_instance_count, "machine"), usd_per_hour(drawn.sufficient_usd_per_hour)
    yield f"{'Replays need fewer' if is_enough else 'They take more'}: {machines} hold as surely, for {price}."


def needed_words(deployment: VerifiedDeployment) -> str:
    """How many replicas keep what those of the plan do not."""
    whose = f"{short_machines(deployment)}, {deployment.arrivals} arrivals"
    if deployment.needed_replicas is None or deployment.needed_usd_per_hour is None:
        return f"{whose}: not even {plural(deployment.most_replicas, 'replica')} keep every objective."
    needed, machines = deployment.needed_replicas, deployment.needed_instance_count
    return (
        f"{whose}: {needed} replicas keep every objective in place of {deployment.replicas}, on {machines} machines "
        f"for {usd_per_hour(deployment.needed_usd_per_hour)}."
    )
