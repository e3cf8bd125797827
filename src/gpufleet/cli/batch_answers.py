"""What `gpufleet plan batch` answers: words parsed, and put to the api."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.cli.plan_answers import needed, ratio, request_tokens, seen_in, whole
from gpufleet.results.batch import BatchPlan
from gpufleet.units import parse_count, parse_duration, parse_usd


@dataclass(frozen=True)
class BatchWords:
    """What the command line says, unparsed."""

    model: str | None
    requests: str | None
    input: str | None
    output: str | None
    deadline: str | None
    trace: str | None
    clouds: tuple[str, ...] | None
    regions: tuple[str, ...] | None
    pricing: tuple[str, ...] | None
    gpus: tuple[str, ...] | None
    precision: tuple[str, ...] | None
    allow_lower_precision: bool
    kv_precision: str | None
    engine: str | None
    headroom: str | None
    prefix_cache: str | None
    startup: str | None
    max_machines: str | None
    budget: str | None
    rows: int


def batch_answer(typed: BatchWords) -> BatchPlan:
    """The plan for what was typed."""
    model = needed(typed.model, "MODEL", "a name or a config.json, as in 'gpufleet plan batch llama-3.1-8b'", None)
    requests = parse_count(needed(typed.requests, "--requests", "how many, such as '10M'", None))
    deadline_s = parse_duration(needed(typed.deadline, "--deadline", "a time, such as '24h'", None))
    prompt, answer, notes = request_tokens(seen_in(typed.trace), typed.input, typed.output, None)
    return plan_batch(
        BatchRequest(
            model=model,
            requests=requests,
            input_tokens=prompt,
            output_tokens=answer,
            deadline_s=deadline_s,
            clouds=typed.clouds,
            regions=typed.regions,
            pricing=typed.pricing,
            gpus=typed.gpus,
            precision=typed.precision,
            allow_lower_precision=typed.allow_lower_precision,
            kv_precision=typed.kv_precision,
            engine=typed.engine,
            headroom=ratio(typed.headroom),
            prefix_cache=ratio(typed.prefix_cache),
            startup_s=None if typed.startup is None else parse_duration(typed.startup),
            most_machines=whole(typed.max_machines, "the number of machines"),
            budget_usd=None if typed.budget is None else parse_usd(typed.budget),
            rows=typed.rows,
            notes=notes,
        )
    )
