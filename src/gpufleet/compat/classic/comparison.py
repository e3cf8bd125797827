"""What catalog and model say of the setups of a classic report: the GPUs sold today, their price, fit and speed."""

from __future__ import annotations

import math

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import OfferFilter, known_gpu, matching_offers
from gpufleet.compat.classic.analysis import Analysis
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.copies import INPUT_TOKENS, OUTPUT_TOKENS, best_copies
from gpufleet.compat.classic.differences import differences
from gpufleet.compat.classic.lines import usd
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.options import Option, Question
from gpufleet.compat.classic.records import GpuInstance, SizeClass
from gpufleet.compat.classic.truth import Truth, Verdict
from gpufleet.compat.rules_today.stand_ins import (
    TRAINING_STATE_BYTES_PER_PARAMETER,
    model_of,
    said,
    training_state_bytes,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import GpufleetError
from gpufleet.records import dataclass
from gpufleet.units import GB, GIB, GIGA

CLOUD, CLOUD_TITLE, ENGINE_TITLE = "aws", "AWS", "vLLM"
RATE_PER_S = 1.0
LOAD_TOKENS_PER_S, SPARE = RATE_PER_S * OUTPUT_TOKENS, 0.2
TRAINING_FAILS = "does not fit without adapters or offloading"


@dataclass(frozen=True)
class Rental:
    """Machines that are sold with a setup's GPUs, and what they cost."""

    offer: Offer
    machine: Instance
    gpu_count: int

    @property
    def machines(self) -> int:
        """Whole machines that hold these GPUs."""
        return math.ceil(self.gpu_count / self.machine.gpu_count)

    @property
    def usd_per_hour(self) -> float:
        """All machines together."""
        return self.machines * self.offer.price_per_instance_usd_per_hour

    @property
    def label(self) -> str:
        """How it is said: '1x p5.4xlarge', and how many of its GPUs are asked for where it has more."""
        there = self.machines * self.machine.gpu_count
        part = f" ({self.gpu_count} of {there:g} GPUs)" if there > self.gpu_count else ""
        return f"{self.machines}x {self.machine.name}{part}"


@dataclass(frozen=True)
class Finding:
    """What one setup costs a month and gives at most (None is unknown), and why it does not do the work."""

    line: str
    month_usd: float | None = None
    tokens_per_s: float | None = None
    fails: tuple[str, ...] = ()
    is_known: bool = True


def comparison(answer: Analysis) -> Truth:
    """The verdict first, then the cheapest machines for the same load, both setups, and where the figures differ."""
    question, best, tables = answer.question, answer.recommended, load_catalog()
    arch = architecture_of(question.size)
    setups = {"Today": question.today}
    if best is not None and not best.is_today:
        setups["Recommended"] = best.setup
    today = finding(tables, question, arch, "Today", question.today)
    checked = {o.setup: finding(tables, question, arch, "Recommended", o.setup) for o in answer.ranked}
    found = [today, *(checked[setup] for setup in list(setups.values())[1:])]
    verdicts = {o.setup: verdict_on(o, today, checked[o.setup]) for o in answer.ranked if checked[o.setup].is_known}
    serves = question.work is WorkloadType.INFERENCE
    lines = [
        *([] if best is None or best.setup not in verdicts else verdict_lines(best, verdicts[best.setup])),
        cheapest(question, arch) if serves else "The speed of training is not predicted yet.",
        *(f.line for f in found),
        *conclusion(*found),
        assumptions(question, arch),
    ]
    rows = {s.instance.key: s.instance for s in setups.values()}
    gpus = {key: accelerator_of(tables, row) for key, row in rows.items()}
    return Truth([*lines, *differences(tables, question, list(rows.values()), gpus)], verdicts)


def verdict_on(option: Option, today: Finding, found: Finding) -> Verdict:
    """Why an option is refuted: it does not do the work, or what the classic arithmetic says of it is not so."""
    price, speed = ratio_of(found.month_usd, today.month_usd), ratio_of(found.tokens_per_s, today.tokens_per_s)
    saves = today.month_usd - found.month_usd if price and today.month_usd and found.month_usd else None
    if found.fails or option.is_today:
        return Verdict(found.fails, saves, speed)
    wrong = []
    if option.saving_usd > 0 and price and price >= 1:
        wrong.append(f"it costs {price:.2f}x today's price")
    elif option.saving_usd > 0 and price and speed and price > speed:
        wrong.append(f"at full load a token costs {price / speed:.2f}x as much")
    if option.speed_ratio > 1 and speed and speed < 1:
        wrong.append(f"it gives {speed:.2f}x today's tokens/s")
    return Verdict(tuple(wrong), saves, speed)


def verdict_lines(best: Option, verdict: Verdict) -> list[str]:
    """Whether the recommendation stands, and what it saves at prices of today."""
    word = "stay with" if best.is_today else "move to"
    saves = verdict.saving_usd_per_month
    known = saves is not None and not best.is_today
    saving = f" At prices of today it {said_saving(saves)} a month; by those below it {said_saving(best.saving_usd)}."
    said = f"REFUTED: {word} {best.setup.label}: {'; '.join(verdict.against)}."
    if not verdict.against:
        said = f"Not refuted: {word} {best.setup.label}."
    return [said + (saving if known else "")]


def said_saving(usd_per_month: float | None) -> str:
    """What a move does to the bill.

    >>> said_saving(-120.0)
    'costs $120 more'
    """
    amount = usd_per_month or 0.0
    return f"saves {usd(amount)}" if amount >= 0 else f"costs {usd(-amount)} more"


def conclusion(today: Finding, option: Finding | None = None) -> list[str]:
    """What the recommended move would do by catalog and model, where they know."""
    if option is None:
        return []
    price = ratio_of(option.month_usd, today.month_usd)
    speed = ratio_of(option.tokens_per_s, today.tokens_per_s)
    known = [f"{price:.2f}x today's price"] if price else []
    known += [f"{speed:.2f}x today's tokens/s"] if speed else []
    each = f": at full load a token costs {price / speed:.2f}x as much" if price and speed else ""
    return [f"So by catalog and model the move means {' and '.join(known)}{each}."] if known else []


def ratio_of(option: float | None, today: float | None) -> float | None:
    """How one compares with the other, where both are known."""
    return option / today if option and today else None


def architecture_of(size: SizeClass) -> Architecture:
    """The real model that stands for a size class: the one that its row names, else the nearest in parameters."""
    return model_of(size.catalog_model or None, size.parameter_count_billion * GIGA).architecture


def accelerator_of(tables: Catalog, instance: GpuInstance) -> Accelerator | None:
    """The GPU of a row in the catalog, with or without its vendor's name; None where it is not there."""
    _, _, bare = instance.gpu_type.partition(" ")
    found = known_gpu(tables, instance.gpu_type) or (known_gpu(tables, bare) if bare else None)
    return None if found is None else found.accelerator


def assumptions(question: Question, arch: Architecture) -> str:
    """Which model, lengths and rate the lines below rest on."""
    size = question.size
    model = f"{said(arch)} stands for {size.name} ({size.parameter_count_billion:g}B)"
    if question.work is not WorkloadType.INFERENCE:
        return f"Assumed: {model}; mixed-precision Adam, {TRAINING_STATE_BYTES_PER_PARAMETER} bytes per parameter."
    load = f"{RATE_PER_S:g} request/s ({LOAD_TOKENS_PER_S:g} tokens/s)"
    lengths = f"{INPUT_TOKENS:,} input and {OUTPUT_TOKENS} output tokens, {load}"
    return f"Assumed: {model}, {question.precision.name} weights, {ENGINE_TITLE}, {lengths}."


def finding(tables: Catalog, question: Question, arch: Architecture, word: str, setup: Setup) -> Finding:
    """What one setup costs and does."""
    gpu = accelerator_of(tables, setup.instance)
    if gpu is None:
        return Finding(f"{word}, {setup.label}: the catalog has no {setup.instance.gpu_type}.", is_known=False)
    rented = rental(tables, setup, gpu)
    month_usd = rented.usd_per_hour * setup.monthly_hours if rented else None
    start = f"{word}, {setup.gpu_count}x {gpu.name}: {price(rented, setup)}"
    if question.work is not WorkloadType.INFERENCE:
        fails = () if holds_training(question, setup, gpu) else (TRAINING_FAILS,)
        return Finding(f"{start}; {training_memory(question, setup, gpu)}", month_usd, fails=fails)
    try:
        copies = best_copies(arch, question.precision.key.casefold(), gpu, setup.gpu_count)
    except GpufleetError as error:
        return Finding(f"{start}; {error}", month_usd, fails=(error.problem,))
    rate = copies.output_tokens_per_s
    speed = f"up to {rate.value:,.0f} tokens/s ({rate.low:,.0f} to {rate.high:,.0f}, {rate.grade})"
    fails = () if rate.value >= LOAD_TOKENS_PER_S else (f"short of {RATE_PER_S:g} request/s",)
    short = ", short of that load" if fails else ""
    return Finding(f"{start}; fits; {speed} as {copies.label}{short}.", month_usd, rate.value, fails)


def price(rented: Rental | None, setup: Setup) -> str:
    """The cheapest way to rent a setup's GPUs on AWS today."""
    if rented is None:
        return f"no {'spot ' if setup.use_spot else ''}price known on {CLOUD_TITLE}"
    offer, hours = rented.offer, setup.monthly_hours
    kind = f"{offer.price_kind.value.replace('_', ' ')}, {offer.basis.value}"
    return (
        f"{rented.label} in {offer.region} at ${rented.usd_per_hour:,.2f}/h ({kind} {offer.as_of}), "
        f"${rented.usd_per_hour * hours:,.0f} for {hours:g} hours"
    )


def rental(tables: Catalog, setup: Setup, gpu: Accelerator) -> Rental | None:
    """The cheapest machines with these GPUs, in one machine where any is large enough; fewer machines where equal."""
    kind = PriceKind.SPOT if setup.use_spot else PriceKind.ON_DEMAND
    wanted = OfferFilter(clouds={CLOUD}, accelerators={gpu.name}, price_kinds={kind})
    offers = [(o, tables.instance_of(o)) for o in matching_offers(tables, wanted)]
    largest = max((machine.gpu_count for _, machine in offers), default=0)
    enough = [(o, m) for o, m in offers if m.gpu_count >= min(setup.gpu_count, largest)]
    rentals = [Rental(o, m, setup.gpu_count) for o, m in enough]
    return min(rentals, key=lambda r: (r.usd_per_hour, r.machines, r.offer.region), default=None)


def holds_training(question: Question, setup: Setup, gpu: Accelerator) -> bool:
    """Whether weights, gradients and optimizer states of mixed-precision Adam have room, before activations."""
    return training_state_gb(question) < setup.gpu_count * gpu.memory_bytes / GB


def training_state_gb(question: Question) -> float:
    """What the training of a size class keeps, before activations. [GB]"""
    return training_state_bytes(question.size.parameter_count_billion * GIGA) / GB


def training_memory(question: Question, setup: Setup, gpu: Accelerator) -> str:
    """What the state of a training takes, against the memory there is."""
    there_gb = setup.gpu_count * gpu.memory_bytes / GB
    fits = "held, before activations" if holds_training(question, setup, gpu) else TRAINING_FAILS
    there = f"{there_gb:,.0f} GB are there ({gpu.memory_bytes / GIB:.0f} GiB a GPU)"
    return f"{question.work.title} state is {training_state_gb(question):,.0f} GB, {there}: {fits}."


def cheapest(question: Question, arch: Architecture) -> str:
    """The cheapest machines on AWS that serve the assumed load."""
    pricing = ("spot",) if question.today.use_spot else None
    request = ServeRequest(
        arch,
        RATE_PER_S,
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
