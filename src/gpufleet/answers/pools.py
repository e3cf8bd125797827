"""Two pools as users get them: what they deliver, which binds, rates that match, and the cheapest of a plan."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from gpufleet.answers.serving_estimate import Replica, explained_terms, factors, latencies, rates, replica_of
from gpufleet.domain.slo import METRICS
from gpufleet.domain.verdict import FITS, TIGHT
from gpufleet.optimize.copies.decoder import Replicas
from gpufleet.optimize.estimate import least_token_s
from gpufleet.optimize.pools import DECODE, PREFILL, PoolOfCopies, PoolsQuestion, PoolsSolution
from gpufleet.optimize.pools_plan import PlacedPool, PooledPlacement
from gpufleet.optimize.size import QUANTILES
from gpufleet.performance.pools import answer_s
from gpufleet.performance.serving import decode_load
from gpufleet.performance.uncertainty import grades
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.provenance import Grade
from gpufleet.results.base import ExplainedTerm, Figure, Input, Ranks
from gpufleet.results.estimate import LatencyPercentile, ServingEstimate
from gpufleet.results.pools import Handover, Pool, PooledDeployment, PooledMachines, PooledServing

Factors: TypeAlias = tuple[float, float]
JUST_BELOW = 1e-9
BINDING = {PREFILL: "the prefill pool", DECODE: "the decode pool"}
FIRST_TOKEN = {
    "host_s": ("taking the request", "arrival and tokens, in both pools"),
    "wait_s": ("wait for a copy", "prompts that came before, and room in the decode pool"),
    "prefill_s": ("prefill", "a step of the prompts that wait together"),
    "handover_s": ("hand-over", "(1 - overlap) bytes / (share x link)"),
    "first_step_s": ("first decode steps", "the engine's steps to the first token"),
}


def pools_estimate(
    question: PoolsQuestion, solution: PoolsSolution, link: str, inputs: list[Input], notes: list[str]
) -> ServingEstimate:
    """The answer for two pools that hold their parts."""
    q, found, lengths = question, solution.found, solution.curves.lengths
    decode = solution.curves.pools.decode
    ttft, tpot = ranges(solution)
    grade = worst_grade(solution)
    rate, output_tokens = float(found.requests_per_s[0]), float(lengths.output_tokens)
    seconds = (float(found.ttft_s[0]), float(found.tpot_s[0]), float(answer_s(solution.curves, found)[0]))
    ttft_s, tpot_s, latency_s = latencies(seconds, tpot, ttft, grade)
    requests_per_s, output_tokens_per_s = rates(q.load.scenario, rate, output_tokens, tpot, grade)
    step = decode.terms(decode_load(np.maximum(found.batch, 1.0), lengths))
    both: Replica = {
        **decode.once(replica_of),
        "gpu": " + ".join(dict.fromkeys((q.prefill.gpu, q.decode.gpu))),
        "num_gpus": q.prefill.num_gpus + q.decode.num_gpus,
        "layout": f"{q.prefill.layout.label} -> {q.decode.layout.label}",
        "grade": grade,
    }
    verdicts = (solution.prefill_room.verdict, solution.decode_room.verdict)
    return ServingEstimate(
        **both,
        scenario=q.load.scenario,
        inputs=inputs,
        verdict=TIGHT if TIGHT in verdicts else FITS,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        latency_s=latency_s,
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_tokens_per_s,
        percentiles=percentiles(question, solution, ttft, tpot, grade),
        batch=float(found.batch[0]),
        largest_batch=float(solution.curves.pools.largest_batch[0]),
        load_ratio=solution.load_ratio,
        binding=f"{solution.binds}_pool",
        binding_limit=BINDING[solution.binds],
        terms=explained_terms(decode, step, grade),
        notes=notes,
        pools=pooled_serving(question, solution, link),
    )


def ranges(solution: PoolsSolution) -> tuple[Factors, Factors]:
    """Factors of the first token, with those of the hand-over's own part, and of the later ones."""
    decode, found, bounds = solution.curves.pools.decode, solution.found, solution.bounds()
    tpot = factors(bounds["tpot"].stopping_at(found.tpot_s, decode.once(least_token_s)))
    return factors(bounds["ttft"]), tpot


def worst_grade(solution: PoolsSolution) -> str:
    """The worse of both pools' grades."""
    pools = solution.curves.pools
    return Grade(max(int(grades(model)[0]) for model in (pools.prefill, pools.decode))).label


def percentiles(
    question: PoolsQuestion, solution: PoolsSolution, ttft: Factors, tpot: Factors, grade: str
) -> list[LatencyPercentile]:
    """The latencies of arrivals at each quantile; none of a closed loop."""
    if question.load.scenario != "open_loop":
        return []
    found = []
    for name, quantile in QUANTILES.items():
        if quantile is not None:
            parts = latencies(solution.arrival_figures(question.workload, name, quantile), tpot, ttft, grade)
            found.append(
                LatencyPercentile(quantile=quantile, **dict(zip((f"{m}_s" for m in METRICS), parts, strict=True)))
            )
    return found


def pooled_serving(question: PoolsQuestion, solution: PoolsSolution, link: str) -> PooledServing:
    """Both pools beside each other, and what lies between them."""
    matched = solution.matched()
    return PooledServing(
        prefill=pool_figures(question.prefill, solution, PREFILL),
        decode=pool_figures(question.decode, solution, DECODE),
        binds=solution.binds,
        matched_prefill=matched[0],
        matched_decode=matched[1],
        handover=handover_figures(question, solution, link),
        first_token=first_token_parts(solution),
    )


def pool_figures(pool: PoolOfCopies, solution: PoolsSolution, name: str) -> Pool:
    """What one pool carries, how full it is, and how many of its copies the other pool needs."""
    pools, found, carried = solution.curves.pools, solution.found, solution.rates
    model = pools.prefill if name == PREFILL else pools.decode
    room = solution.prefill_room if name == PREFILL else solution.decode_room
    other = carried[DECODE if name == PREFILL else PREFILL]
    low, high = factors(solution.bounds()["ttft" if name == PREFILL else "tpot"])
    grade = Grade(int(grades(model)[0])).label
    return Pool.made_of(
        pool,
        num_gpus=pool.layout.num_devices,
        layout=pool.layout.label,
        ranks=Ranks.made_of(pool.layout),
        verdict=room.verdict,
        grade=grade,
        carried_requests_per_s=Figure.between(carried[name], "1/s", carried[name] / high, carried[name] / low, grade),
        load_ratio=float(found.requests_per_s[0]) / carried[name],
        together=float((found.prompts if name == PREFILL else found.batch)[0]),
        most_together=float(room.most[0]),
        needed_copies=math.ceil(other / (carried[name] / pool.copies) - JUST_BELOW),
    )


def handover_figures(question: PoolsQuestion, solution: PoolsSolution, link: str) -> Handover:
    """Bytes of a prompt's cache, the link that carries them, and the time that they add, with its range."""
    seconds = [float(np.ravel(end)[0]) for end in solution.handover_ends_s(question.link_bytes_per_s)]
    low, value, high = seconds
    return Handover(
        bytes_per_gpu=solution.handed_bytes,
        link=link,
        link_bytes_per_s=question.link_bytes_per_s,
        seconds=Figure.between(value, "s", low, high, Grade.ROOFLINE.label),
    )


def first_token_parts(solution: PoolsSolution) -> list[ExplainedTerm]:
    """What the time to first token is made of, in the order in which a request meets it."""
    return [
        ExplainedTerm(name=name, value=float(np.ravel(getattr(solution.found, part))[0]), unit="s", formula=formula)
        for part, (name, formula) in FIRST_TOKEN.items()
    ]


def pooled_deployment(copies: Replicas, found: PooledPlacement, answer_usd_per_hour: float | None) -> PooledDeployment:
    """Both pools with their machines and price, beside the price of the plan's own answer."""
    shared = found.machines[1] == 0
    prefill = pooled_machines(copies, found.prefill, found.machines[0], found.carried_per_s[0])
    decode = pooled_machines(copies, found.decode, None if shared else found.machines[1], found.carried_per_s[1])
    row = found.decode.row
    return PooledDeployment.made_of(
        found,
        prefill=prefill,
        decode=decode,
        engine=copies.engine(row),
        weight_format=copies.weights(row),
        kv_precision=copies.kv_precision(row),
        usd_per_month=float(usd_per_month(found.usd_per_hour)),
        cost_ratio=None if answer_usd_per_hour is None else found.usd_per_hour / answer_usd_per_hour,
        planned_s=dict(found.planned_s),
    )


def pooled_machines(copies: Replicas, pool: PlacedPool, machines: int | None, carried_per_s: float) -> PooledMachines:
    """The copies of one pool and what they stand on."""
    layout, offer = copies.layout(pool.row), pool.offer
    return PooledMachines.made_of(
        pool,
        offer,
        gpu=copies.gpu(pool.row).name,
        num_gpus=layout.num_devices,
        layout=layout.label,
        instance=offer.instance,
        machines=machines,
        price_source=offer.source,
        price_as_of=offer.as_of if offer.is_dated else None,
        carried_requests_per_s=carried_per_s,
    )
