"""What catalog and model say of the setups of a classic report: the GPUs sold today, their price, fit and speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import known_gpu
from gpufleet.compat.classic.analysis import Analysis
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.copies import INPUT_TOKENS, OUTPUT_TOKENS, best_copies
from gpufleet.compat.classic.differences import differences
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.options import GPU_COUNTS, Question, option
from gpufleet.compat.classic.records import GpuInstance, SizeClass
from gpufleet.compat.classic.rental import CLOUD, CLOUD_TITLE, price, rental
from gpufleet.compat.classic.trainings import fewest_line, trained, training_assumed
from gpufleet.compat.classic.truth import Truth
from gpufleet.compat.classic.verdicts import (
    Finding,
    best_line,
    best_standing,
    conclusion,
    verdict_lines,
    verdict_on,
)
from gpufleet.compat.rules_today.stand_ins import model_of, said
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import GpufleetError
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.units import GIGA

ENGINE_TITLE = "vLLM"
SPARE = 0.2


@dataclass(frozen=True)
class Facts:
    """The question, the model that stands for its size class, and the tables that answer it."""

    tables: Catalog
    question: Question
    arch: Architecture

    @property
    def serves(self) -> bool:
        """Whether tokens a second are asked for."""
        return self.question.work is WorkloadType.INFERENCE

    @property
    def load_tokens_per_s(self) -> float:
        """Output tokens a second of the scenario's own load."""
        return self.question.load_requests_per_s * OUTPUT_TOKENS


def comparison(rows: Mapping[str, GpuInstance], answer: Analysis) -> Truth:
    """The best that stands first, then the verdict on the recommendation, both setups, and where the figures differ."""
    question, classic = answer.question, answer.recommended
    facts = Facts(load_catalog(), question, architecture_of(question.size))
    today = finding(facts, "Today", question.today)
    found = {**tried(facts, rows, answer), question.today: today}
    options = {setup: option(question, setup) for setup in found}
    verdicts = {s: verdict_on(question, o, today, found[s]) for s, o in options.items() if found[s].is_known}
    best = best_standing(question.goal, {options[setup]: verdict for setup, verdict in verdicts.items()})
    setups = [question.today, *([] if classic is None or classic.is_today else [classic.setup])]
    compared = [today, *(found[setup] for setup in setups[1:])]
    lines = [
        best_line(question, best, *((None, None) if best is None else (verdicts[best.setup], found[best.setup]))),
        *([] if classic is None or classic.setup not in verdicts else verdict_lines(classic, verdicts[classic.setup])),
        cheapest(facts)
        if facts.serves
        else fewest_line(question, facts.arch, accelerator_of(facts.tables, question.today.instance)),
        *(f.line for f in compared),
        *conclusion(question, *compared),
        assumptions(facts),
    ]
    told = {setup.instance.key: setup.instance for setup in setups}
    gpus = {key: accelerator_of(facts.tables, row) for key, row in told.items()}
    lines += differences(facts.tables, question, list(told.values()), gpus)
    return Truth(lines, verdicts, best)


def tried(facts: Facts, rows: Mapping[str, GpuInstance], answer: Analysis) -> dict[Setup, Finding]:
    """What is found of the classic options and of the counts beside them."""
    found = {o.setup: finding(facts, "Recommended", o.setup) for o in answer.ranked}
    for row in rows.values():
        found |= dict(counts_tried(facts, row, found))
    return found


def counts_tried(facts: Facts, row: GpuInstance, known: Mapping[Setup, Finding]) -> Iterator[tuple[Setup, Finding]]:
    """One instance from one GPU to as many as today; where none of those does the work, on to the fewest that do.

    The rest of a machine that is paid for by those fewest is tried too.
    """
    today, does_any_work = facts.question.today, False
    for count in GPU_COUNTS:
        if count > today.gpu_count and does_any_work:
            return
        setup = replace(today, instance=row, gpu_count=count)
        found = known.get(setup) or finding(facts, "Recommended", setup)
        yield setup, found
        if found.works and not does_any_work and count > today.gpu_count and found.rented is not None:
            whole = replace(setup, gpu_count=max(count, found.rented.gpus_paid_for))
            yield whole, finding(facts, "Recommended", whole)
        does_any_work = does_any_work or found.works


def architecture_of(size: SizeClass) -> Architecture:
    """The real model that stands for a size class: the one that its row names, else the nearest in parameters."""
    return model_of(size.catalog_model or None, size.parameter_count_billion * GIGA).architecture


def accelerator_of(tables: Catalog, instance: GpuInstance) -> Accelerator | None:
    """The GPU of a row in the catalog, with or without its vendor's name; None where it is not there."""
    _, _, bare = instance.gpu_type.partition(" ")
    found = known_gpu(tables, instance.gpu_type) or (known_gpu(tables, bare) if bare else None)
    return None if found is None else found.accelerator


def assumptions(facts: Facts) -> str:
    """Which model, lengths and rate the lines below rest on."""
    question, size = facts.question, facts.question.size
    model = f"{said(facts.arch)} stands for {size.name} ({size.parameter_count_billion:g}B)"
    if not facts.serves:
        return f"Assumed: {model}; {training_assumed(question, facts.arch)}."
    load = f"{question.load_requests_per_s:g} request/s ({facts.load_tokens_per_s:g} tokens/s)"
    whose = "" if question.requests_per_s is None else ", as the scenario says"
    lengths = f"{INPUT_TOKENS:,} input and {OUTPUT_TOKENS} output tokens, {load}{whose}"
    return f"Assumed: {model}, {question.precision.name} weights, {ENGINE_TITLE}, {lengths}."


def finding(facts: Facts, word: str, setup: Setup) -> Finding:
    """What one setup costs and does."""
    gpu = accelerator_of(facts.tables, setup.instance)
    if gpu is None:
        return Finding(f"{word}, {setup.label}: the catalog has no {setup.instance.gpu_type}.", is_known=False)
    rented = rental(facts.tables, setup, gpu)
    month_usd = rented.usd_per_hour * setup.monthly_hours if rented else None
    start = f"{word}, {setup.gpu_count}x {gpu.name}: {price(rented, setup)}"
    done = served(facts, setup, gpu) if facts.serves else trained(facts.question, facts.arch, setup, gpu)
    return replace(done, line=f"{start}; {done.line}", month_usd=month_usd, rented=rented)


def served(facts: Facts, setup: Setup, gpu: Accelerator) -> Finding:
    """Whether GPUs hold the model, and the load."""
    try:
        copies = best_copies(facts.arch, facts.question.precision.key.casefold(), gpu, setup.gpu_count)
    except GpufleetError as error:
        return Finding(str(error), fails=(error.problem,))
    rate, load = copies.output_tokens_per_s, facts.question.load_requests_per_s
    speed = f"up to {rate.value:,.0f} tokens/s ({rate.low:,.0f} to {rate.high:,.0f}, {rate.grade})"
    fails = () if rate.value >= facts.load_tokens_per_s else (f"short of {load:g} request/s",)
    short = ", short of that load" if fails else ""
    line = f"fits; {speed} as {copies.label}{short}."
    return Finding(line, tokens_per_s=rate.value, fails=fails, room=room(facts, rate))


def room(facts: Facts, rate: Figure) -> str:
    """How far the load fills what GPUs give at most."""
    load = facts.load_tokens_per_s
    carries = f"carries {facts.question.load_requests_per_s:g} request/s at {load / rate.value:.0%} of its most"
    is_tight = rate.low is not None and rate.low < load
    return f"{carries}: tight, its low end falls short" if is_tight else carries


def cheapest(facts: Facts) -> str:
    """The cheapest machines on AWS that serve the assumed load."""
    question = facts.question
    pricing = ("spot",) if question.today.use_spot else None
    request = ServeRequest(
        facts.arch,
        question.load_requests_per_s,
        INPUT_TOKENS,
        OUTPUT_TOKENS,
        clouds=[CLOUD],
        pricing=pricing,
        precision=[question.precision.key.casefold()],
        headroom=SPARE,
    )
    try:
        plan = plan_serve(request)
    except GpufleetError as error:
        return f"Cheapest on {CLOUD_TITLE}: {error}"
    if not plan.deployments:
        return f"Cheapest on {CLOUD_TITLE}: nothing there holds and serves it."
    best, hours = plan.answer, question.today.monthly_hours
    machines = f"{best.instance_count}x {best.instance} ({best.gpu}), {best.region}"
    return (
        f"Cheapest on {CLOUD_TITLE} for that load with {SPARE:.0%} to spare: {machines}, "
        f"${best.usd_per_hour:,.2f}/h, ${best.usd_per_hour * hours:,.0f} for {hours:g} hours."
    )
