"""What files that scale copies cost as played, and what they need of a cluster, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpufleet.api.scaled_copies import NO_SCALER, POLL_S
from gpufleet.deploy.serving_copies import Scaling
from gpufleet.report.numbers import duration, percent, usd, usd_per_hour
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.plan import Deployment


def cost_words(answer: AutoscaleResult, scaling: Scaling, d: Deployment) -> str:
    """What is rented while copies come and go."""
    least, most = (math.ceil(copies / scaling.per_machine) for copies in (scaling.least, scaling.most))
    number = f"{least}" if least == most else f"{least} to {most}"
    mean = answer.recommended.mean_machines * d.price_per_instance_usd_per_hour
    return (
        f"{number}x {d.cloud} {d.instance} in {d.region}, {d.price_kind.replace('_', ' ')}: "
        f"{usd_per_hour(mean)} on average as played"
    )


def said_of_scaling(answer: AutoscaleResult, scaling: Scaling, *, in_cluster: bool) -> Iterator[str]:
    """What the law needs of whoever runs it, what it was played on, and what is not known of it."""
    best = answer.recommended
    yield (
        f"'{scaling.law}' kept {percent(best.kept_ratio_worst_day)} of requests in time on the worst day that was "
        f"played, at {usd(best.usd_per_month)} a month"
    )
    if scaling.controller in NO_SCALER:
        return
    within = f"within a cold start of {duration(answer.cold_start_s)} in all"
    if in_cluster:
        yield f"Nodes have to come and go with the copies: by Karpenter or the cluster autoscaler, {within}"
    else:
        yield f"The capacity provider adds a machine a minute or two after a copy waits for one: {within}"
    if scaling.per_machine > 1:
        yield f"{scaling.per_machine} copies share a machine: limits are those of a copy"
    if scaling.controller == "KEDA" and in_cluster:
        yield "KEDA 2.12 or newer has to run in the cluster"
    if scaling.reads_metrics:
        where = f"Prometheus at {scaling.prometheus} (--prometheus names yours)"
        yield f"{where} has to read /metrics of the copies every {POLL_S:.0f} s"
    if scaling.windows:
        dated = (
            "" if answer.recommendation.is_dated else ", and the first day of the trace as a Monday: it has no dates"
        )
        yield f"Times of the trace are taken as {scaling.timezone}{dated}; --timezone names its zone"
        yield "Windows are of the days that were read: run autoscale and deploy again each week"
