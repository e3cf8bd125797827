"""Copies on Amazon ECS that come and go by the clock: actions of Application Auto Scaling, which set their number.

Words: docs.aws.amazon.com/autoscaling/application (scheduled scaling, cron expressions). Where an action's least is
above the number that runs, or its most below, the number follows at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.deploy.ecs_copies import NAME, ident, of, resource
from gpufleet.deploy.serving_copies import ScaledWindow, Scaling, ServingCopies
from gpufleet.hcl import Block, Code, Values, inner, text_of
from gpufleet.units import DAY, HOUR, MINUTE

DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
WEEK_S = len(DAYS) * DAY
DIMENSION, SERVICE = "ecs:service:DesiredCount", "ecs"
SCALED = "aws_appautoscaling_target"


def schedule_blocks(copies: ServingCopies, scaling: Scaling) -> Iterator[Block]:
    """What may be scaled, between which numbers, and an action for each moment at which the number changes."""
    scaled: Values = {
        "service_namespace": SERVICE,
        "resource_id": text_of("service/", NAME, "/", of(copies, "aws_ecs_service", "name")),
        "scalable_dimension": DIMENSION,
        "min_capacity": scaling.least,
        "max_capacity": scaling.most,
        "depends_on": [Code(f"aws_ecs_service.{ident(copies)}")],
    }
    yield resource(copies, SCALED, scaled)
    for moment, days, number in changes(scaling):
        yield action(copies, scaling, moment, days, number)


def action(copies: ServingCopies, scaling: Scaling, moment_s: float, days: tuple[int, ...], number: int) -> Block:
    """The number of copies from a moment of some days on."""
    hour, minute = int(moment_s // HOUR), int(moment_s % HOUR // MINUTE)
    on = "*" if len(days) == len(DAYS) else ",".join(DAYS[day] for day in days)
    name = f"{hour:02d}{minute:02d}_{number}"
    bounds: Values = {"min_capacity": number, "max_capacity": number}
    told: Values = {
        "name": text_of(NAME, f"-{copies.name}-{hour:02d}{minute:02d}-{number}"),
        "service_namespace": of(copies, SCALED, "service_namespace"),
        "resource_id": of(copies, SCALED, "resource_id"),
        "scalable_dimension": of(copies, SCALED, "scalable_dimension"),
        "schedule": f"cron({minute} {hour} ? * {on} *)",
        "timezone": scaling.timezone,
    }
    label = f"{ident(copies)}_at_{name}"
    return Block(
        "resource", ("aws_appautoscaling_scheduled_action", label), told, [inner("scalable_target_action", bounds)]
    )


def changes(scaling: Scaling) -> list[tuple[float, tuple[int, ...], int]]:
    """Moments of a day at which the number of copies changes, the days from Monday = 0 on, and the number from then on.

    >>> week = Scaling("cron-windows", "KEDA", 1, 4, 1, 2, (ScaledWindow((1, 2), 8 * HOUR, 20 * HOUR, 4),), lead_s=300)
    >>> changes(week)
    [(28500.0, (0, 1), 4), (72000.0, (0, 1), 1)]
    """
    spans = [span for window in scaling.windows for span in spans_of(window, scaling.lead_s)]
    moments = sorted({moment % WEEK_S for start, end, _ in spans for moment in (start, end)})
    wanted = [number_at(moment, spans, scaling.least) for moment in moments]
    found: dict[tuple[float, int], list[int]] = {}
    for at, (moment, number) in enumerate(zip(moments, wanted, strict=True)):
        if number != wanted[at - 1] or len(moments) == 1:
            found.setdefault((moment % DAY, number), []).append(int(moment // DAY))
    return sorted((moment, tuple(days), number) for (moment, number), days in found.items())


def spans_of(window: ScaledWindow, lead_s: float) -> Iterator[tuple[float, float, int]]:
    """Begin, end and copies of a window on each of its days, in seconds after Monday's midnight, begun early."""
    for day in window.days:
        midnight = (day - 1) * DAY
        yield midnight + window.start_s - lead_s, midnight + window.end_s, window.copies


def number_at(moment: float, spans: list[tuple[float, float, int]], least: int) -> int:
    """The most copies of all spans that hold a moment, in whichever week they began."""
    held = [n for start, end, n in spans if any(start <= moment + week < end for week in (-WEEK_S, 0.0, WEEK_S))]
    return max([least, *held])
