"""What `gpufleet plan batch` answers: flags laid over a workload file, parsed, and put to the api."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.cli.plan_answers import from_file, laid_over, needed, ratio, request_tokens, seen_in, whole
from gpufleet.inputs.workload import WorkloadFile, read_workload, refuse_said
from gpufleet.results.batch import BatchPlan
from gpufleet.units import parse_count, parse_duration, parse_usd

OF_SERVICES = (
    "rate", "slo", "min_replicas", "prefix_kv", "spare_machines", "zones", "off_peak", "peak_hours", "max_spot",
    "confidence", "classes", "models",
)  # fmt: skip


@dataclass(frozen=True)
class BatchFlags:
    """What the command line says beside the words that a workload file may hold."""

    allow_lower_precision: bool
    kv_precision: str | None
    max_machines: str | None
    rows: int


def batch_answer(
    typed: WorkloadFile, workload: str | None, flags: BatchFlags, preferred: WorkloadFile | None = None
) -> BatchPlan:
    """The plan for what was typed, over what the file says, over what is preferred."""
    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, OF_SERVICES, "plan batch")
    liked = preferred or WorkloadFile()
    said = laid_over(typed, written)
    asked = laid_over(said, liked)
    model = needed(asked.model, "MODEL", "a name or a config.json, as in 'gpufleet plan batch llama-3.1-8b'")
    requests = parse_count(needed(asked.requests, "--requests", "how many, such as '10M'"))
    deadline_s = parse_duration(needed(asked.deadline, "--deadline", "a time, such as '24h'"))
    prompt, answer, notes = request_tokens(seen_in(asked.trace), asked.input, asked.output)
    return plan_batch(
        BatchRequest(
            model=model,
            requests=requests,
            input_tokens=prompt,
            output_tokens=answer,
            deadline_s=deadline_s,
            clouds=asked.clouds,
            regions=asked.regions,
            pricing=asked.pricing,
            gpus=asked.gpus,
            precision=asked.precision,
            allow_lower_precision=flags.allow_lower_precision,
            kv_precision=flags.kv_precision,
            engine=asked.engine,
            headroom=ratio(asked.headroom),
            prefix_cache=ratio(asked.prefix_cache),
            startup_s=None if asked.startup is None else parse_duration(asked.startup),
            most_machines=whole(flags.max_machines, "the number of machines"),
            budget_usd=None if asked.budget is None else parse_usd(asked.budget),
            rows=flags.rows,
            from_file=from_file(typed, written),
            from_config=from_file(said, liked),
            notes=notes,
        )
    )
