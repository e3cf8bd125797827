"""A mix of machine types, as users get it: machines, copies at the requests that they get, and routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.plan_parts import machines_of
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.copies.decoder import Replicas
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.mixes.corrected import Rated
from gpufleet.optimize.mixes.rates import Bucket
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.optimize.placement import Placement
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import ServeSolution
from gpufleet.results.mix import MixCopies, MixMachines, RouteRow
from gpufleet.results.plan import Deployment

CRUMB = 1e-3


def used_ways(found: Rated) -> list[int]:
    """Ways that are sent requests."""
    return [int(w) for w in np.flatnonzero(found.needed_units > 0)]


def bought_offers(found: Rated) -> list[int]:
    """Offers of which machines are bought, the dearest in all first."""
    machines, usd = found.mix.machines, found.mix.machines * found.problem.usd_per_hour
    return sorted((int(o) for o in np.flatnonzero(machines > 0)), key=lambda o: (-usd[o], o))


def mix_machines(posed: Posed, found: Rated, usd_without: Sequence[float | None]) -> list[MixMachines]:
    """The machines of every offer, with what the mix would cost without it."""
    rows = []
    for offer_index, without in zip(bought_offers(found), usd_without, strict=True):
        offer, instance = posed.offers[offer_index], posed.instances[offer_index]
        count = round(found.mix.machines[offer_index])
        said = machines_of(offer, instance, count)
        usd = count * said["price_per_instance_usd_per_hour"]
        rows.append(
            MixMachines(**said, usd_per_hour=usd, can_be_had=offer.most_instances, usd_per_hour_without=without)
        )
    return rows


def mix_copies(posed: Posed, found: Rated) -> list[MixCopies]:
    """The replicas of every way at the requests that they get."""
    at = {offer: row for row, offer in enumerate(bought_offers(found))}
    return [mix_copy(posed, found, w, at[posed.ways[w].offer]) for w in used_ways(found)]


def mix_copy(posed: Posed, found: Rated, w: int, machines: int) -> MixCopies:
    """The replicas of one way."""
    way, problem = posed.ways[w], found.problem
    share = found.mix.share[posed.buckets_of(way.service), w]
    rate = float(
        sum(b.rate_requests_per_s * s for b, s in zip(posed.services[way.service].buckets, share, strict=True))
    )
    return MixCopies(
        service=way.service,
        machines=machines,
        requests_per_s=rate,
        busy_ratio=float(found.needed_units[w] / found.mix.units[w]),
        deployment=deployment_of(posed, found, w, round(found.mix.units[w] * problem.replicas_per_unit[w])),
    )


def deployment_of(posed: Posed, found: Rated, w: int, replicas: int) -> Deployment:
    """The replicas of one way as a deployment of what they are sent, on machines of their own."""
    way, copies = posed.ways[w], replicas_of_way(posed, found, w)
    solution = ServeSolution(copies, copies.capacity(), [], Rejections())
    machines = -(-replicas // way.replicas_per_machine)
    placed = Placement(posed.instances[way.offer], 0, replicas, machines, int(copies.num_devices[0]), machines)
    question = replace(posed.services[way.service].question, demand=copies.demand)
    return deployment(SERVICE, Context.of(question, solution), PricedPlacement(placed, posed.offers[way.offer]))


def replicas_of_way(posed: Posed, found: Rated, w: int) -> Replicas:
    """The one layout of a way, under what it is sent."""
    way = posed.ways[w]
    service = posed.services[way.service]
    demand = service.sent(found.mix.share[posed.buckets_of(way.service), w])
    assert demand is not None, "a way that is used is sent something"
    demand = replace(demand, min_replicas=1, spare_machines=0, zones=1)
    copies, _ = service.runnable(demand, service.every.take(np.array([way.row])))
    return copies


def route_rows(posed: Posed, found: Rated) -> list[RouteRow]:
    """Where requests of every bucket go; buckets side by side that go the same way are one row."""
    used = used_ways(found)
    buckets = [(s, bucket) for s, service in enumerate(posed.services) for bucket in service.buckets]
    rows: list[RouteRow] = []
    for (s, bucket), share in zip(buckets, found.mix.share, strict=True):
        row = route_row(posed, s, bucket, {at: float(share[w]) for at, w in enumerate(used) if share[w] > CRUMB})
        before = next((at for at, earlier in enumerate(rows) if goes_on(earlier, row)), None)
        if before is None:
            rows.append(row)
        else:
            rows[before] = joined_rows(rows[before], row)
    return rows


def route_row(posed: Posed, service: int, bucket: Bucket, copies: dict[int, float]) -> RouteRow:
    """Where requests of one bucket go; shares of all of them."""
    alike = [b for b in posed.services[service].buckets if b.request_class is bucket.request_class]
    prompts = ends_of(bucket.lengths.prompt_points, [b.lengths.prompt_points for b in alike])
    answers = ends_of(bucket.lengths.answer_points, [b.lengths.answer_points for b in alike])
    total = sum(copies.values())
    return RouteRow(
        service=service,
        request_class=bucket.request_class.name,
        from_prompt_tokens=prompts[0],
        to_prompt_tokens=prompts[1],
        from_answer_tokens=answers[0] if bucket.is_cut_by_answer else None,
        to_answer_tokens=answers[1] if bucket.is_cut_by_answer else None,
        requests_per_s=bucket.rate_requests_per_s,
        copies={at: share / total for at, share in copies.items()},
    )


def ends_of(points: FloatArray, of_all: Sequence[FloatArray]) -> tuple[float, float | None]:
    """Above how many whole tokens and up to how many a bucket is, beside all buckets; the longest has no end."""
    ends = sorted({float(np.round(other[-1])) for other in of_all})
    end = float(np.round(points[-1]))
    below = [e for e in ends if e < end]
    return (below[-1] if below else 0.0), (end if end < ends[-1] else None)


def goes_on(before: RouteRow, row: RouteRow) -> bool:
    """Whether a row is the next longer prompts of the same requests, sent the same way."""
    same = (row.service, row.request_class, row.from_answer_tokens, row.to_answer_tokens)
    is_same = same == (before.service, before.request_class, before.from_answer_tokens, before.to_answer_tokens)
    alike = before.copies.keys() == row.copies.keys() and before.to_prompt_tokens == row.from_prompt_tokens
    return is_same and alike and all(abs(before.copies[at] - row.copies[at]) < CRUMB for at in row.copies)


def joined_rows(before: RouteRow, row: RouteRow) -> RouteRow:
    """Two rows as one."""
    rate = before.requests_per_s + row.requests_per_s
    return before.model_copy(update={"to_prompt_tokens": row.to_prompt_tokens, "requests_per_s": rate})
