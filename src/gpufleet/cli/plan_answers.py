"""What `gpufleet plan` answers: flags laid over a workload file, parsed, and put to the api."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from gpufleet.api.plans import ServeRequest, plan_serve
from gpufleet.cli.options import answer_tokens
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile, read_workload
from gpufleet.results.plan import ServePlan
from gpufleet.units import parse_count, parse_rate, parse_ratio, parse_tokens

REQUEST_FIELD = {"input": "input_tokens", "output": "output_tokens"}


@dataclass(frozen=True)
class ServeFlags:
    """What the command line says beside the words that a workload file may hold."""

    kv_precision: str | None
    allow_lower_precision: bool
    rows: int
    seed_config: str | None = None


def serve_answer(
    given: WorkloadFile, workload: str | None, flags: ServeFlags, preferred: frozenset[str] = frozenset()
) -> ServePlan:
    """The plan for what was typed, over what the file says, over what is `preferred` where neither says anything."""
    written = WorkloadFile() if workload is None else read_workload(workload)
    typed = replace(given, **{f.name: None for f in fields(WorkloadFile) if f.name in preferred})
    asked = laid_over(laid_over(typed, written), given)
    request = ServeRequest(
        model=needed(asked.model, "MODEL", "a name or a config.json, as in 'gpufleet plan serve llama-3.3-70b'"),
        rate=parse_rate(needed(asked.rate, "--rate", "requests per time, such as '50/s' or '3000/min'")),
        input_tokens=parse_tokens(needed(asked.input, "--in", "tokens of a prompt, such as '1000' or '8k'")),
        output_tokens=answer_tokens(needed(asked.output, "--out", "tokens of an answer, such as '300'")),
        slo=asked.slo,
        clouds=asked.clouds,
        regions=asked.regions,
        pricing=asked.pricing,
        gpus=asked.gpus,
        precision=asked.precision,
        allow_lower_precision=flags.allow_lower_precision,
        kv_precision=flags.kv_precision,
        engine=asked.engine,
        headroom=None if asked.headroom is None else parse_ratio(asked.headroom),
        min_replicas=None if asked.min_replicas is None else whole(asked.min_replicas),
        rows=flags.rows,
        from_file=from_file(typed, written),
        from_config=preferred - from_file(typed, written),
    )
    return plan_serve(request) if flags.seed_config is None else plan_on_seed_config(request, flags.seed_config)


def plan_on_seed_config(request: ServeRequest, folder: str) -> ServePlan:
    """The plan on the machines and prices that configs of the migration analyzer describe."""
    from datetime import date

    from gpufleet.compat.seed_config import seed_catalog

    machines = seed_catalog(folder, date.today())
    plan = plan_serve(request, machines.catalog)
    return plan.model_copy(update={"notes": [*machines.notes, *plan.notes]})


def laid_over(typed: WorkloadFile, written: WorkloadFile) -> WorkloadFile:
    """Every field as it was typed, else as it was written."""
    pairs = {f.name: (getattr(typed, f.name), getattr(written, f.name)) for f in fields(WorkloadFile)}
    return WorkloadFile(**{name: file if flag is None else flag for name, (flag, file) in pairs.items()})


def from_file(typed: WorkloadFile, written: WorkloadFile) -> frozenset[str]:
    """Fields of the request that only the file gives."""
    names = (f.name for f in fields(WorkloadFile) if getattr(typed, f.name) is None)
    return frozenset(REQUEST_FIELD.get(name, name) for name in names if getattr(written, name) is not None)


def needed(value: str | None, name: str, expected: str) -> str:
    """A value that no default can stand in for."""
    if value is None:
        raise UsageError(f"{name} is missing", expected=expected, hint="A workload file may give it too: --workload.")
    return value


def whole(text: str) -> int:
    """A whole number of replicas."""
    number = parse_count(text)
    if number != int(number):
        raise UsageError("the number of replicas is not whole", found=text, expected="a whole number such as 2")
    return int(number)
