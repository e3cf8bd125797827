"""What a plan costs where prefill and decode run on copies of their own."""

from __future__ import annotations

from gpufleet.answers.plan_parts import price_days, price_sources
from gpufleet.answers.pools import pooled_deployment
from gpufleet.api.serve_questions import Prepared
from gpufleet.catalog.calibration import load_formulas
from gpufleet.catalog.network import network_of
from gpufleet.optimize.pools_plan import cheapest_pools, not_tried
from gpufleet.results.plan import ServePlan

NOTHING = "Prefill and decode apart: no pools were found that keep every limit with the machines on sale"


def with_pools(plan: ServePlan, prepared: Prepared) -> ServePlan:
    """The plan with the cheapest pools, or why there are none."""
    question, solution = prepared.question, prepared.solution
    barred = not_tried(question)
    if barred is not None:
        told = f"Prefill and decode apart are not planned with {barred}"
        return plan.model_copy(update={"notes": [*plan.notes, told]})
    formula = load_formulas().handover
    networks = {(i.cloud, i.name): network_of(i).share_of(i.gpu_count).bytes_per_s.expected for i in question.instances}
    found = cheapest_pools(question, solution, networks, formula)
    if found is None or found.usd_per_hour > question.purse.most_usd_per_hour:
        return plan.model_copy(update={"notes": [*plan.notes, NOTHING]})
    answer = plan.deployments[0].usd_per_hour if plan.deployments else None
    pools = pooled_deployment(solution.copies, found, answer)
    used = [(pool.price_source, pool.price_as_of) for pool in (pools.prefill, pools.decode)]
    beside = [part.deployment for part in plan.mix.parts] if plan.mix is not None else []
    sources = price_sources([*price_days([*plan.deployments, *beside]), *used], prepared.tables.sources)
    return plan.model_copy(update={"pools": pools, "price_sources": sources})
