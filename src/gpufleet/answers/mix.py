"""Two offers together, as users get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpufleet.answers.decoder_service import SERVICE
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.flips import at_rate
from gpufleet.optimize.mix import Mix, Part
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.unit_cost import usd_per_million_tokens
from gpufleet.results.launch import Launch
from gpufleet.results.plan import MixedDeployment, MixPart


def mixed_deployment(
    question: WriterQuestion, solution: WriterSolution, mix: Mix, launches: Sequence[Launch | None]
) -> MixedDeployment:
    """Both parts at the rates that they get, how each is started, and what they cost together."""
    tokens_per_s = question.demand.mean_requests_per_s * question.demand.workload.output_tokens
    return MixedDeployment(
        parts=[mix_part(question, solution, part, how) for part, how in zip(mix.parts, launches, strict=True)],
        usd_per_hour=mix.usd_per_hour,
        usd_per_month=float(usd_per_month(mix.usd_per_hour)),
        usd_per_million_output_tokens=float(usd_per_million_tokens(mix.usd_per_hour, tokens_per_s)),
    )


def mix_part(question: WriterQuestion, solution: WriterSolution, part: Part, launch: Launch | None) -> MixPart:
    """One part as a deployment of its own share of the requests; least replicas and failures are of both together."""
    rate = question.demand.workload.rate_requests_per_s * part.rate_ratio
    demand = replace(at_rate(question.demand, rate), min_replicas=1)
    context = Context.of(replace(question, demand=demand), solution)
    return MixPart(
        share_ratio=part.rate_ratio,
        requests_per_s=rate,
        can_be_had=part.priced.offer.most_instances,
        needed_alone=round(part.needed_alone),
        deployment=deployment(SERVICE, context, part.priced).model_copy(update={"launch": launch}),
    )
