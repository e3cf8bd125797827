"""The answer of `gpufleet fit --method` as a page."""

from __future__ import annotations

from gpufleet.report.numbers import count, duration, gib, percent, plural, ranged
from gpufleet.report.page import Columns, Fact, Page, Table, column, formulas_table, number
from gpufleet.report.ranges import ranged_figure
from gpufleet.report.training import MEASURES, STEP_FORMULAS, again_words, step_table
from gpufleet.report.training_memory import memory_table, terms_table
from gpufleet.report.words import grade_line, memory_look
from gpufleet.results.training import OtherStack, TrainingChange, TrainingEstimate, TrainingFit
from gpufleet.units import GIB, PERCENT

METHODS = {"full": "Training all weights of", "lora": "LoRA of", "qlora": "QLoRA of"}


def training_fit_page(result: TrainingFit, *, explain: bool = False) -> Page:
    """Verdict, a bar for each term, the layout, the most that fits; when it does not fit, what would help."""
    memory, speed = result.estimate.memory, result.estimate.speed
    tables = [
        memory_table(memory, result.host_machine),
        *([otherwise_table(result)] if result.otherwise else []),
        *([] if result.fits else [changes_table(result)]),
    ]
    if explain:
        tables += [terms_table(memory), step_table(speed), formulas_table((*STEP_FORMULAS, *MEASURES))]
    notes = [f"{note.rstrip('.')}." for note in result.notes]
    title = f"{asked_text(result)}." if result.fits else ""
    lines = [layout_line(result), speed_line(result), largest_line(result)]
    return Page(headline(result), tables, notes, lines, facts(result), title)


def asked_text(result: TrainingFit) -> str:
    """What is trained on what: 'LoRA of llama-3.1-8b on 1x RTX-4090 in bf16, sequences of 4,096'."""
    trained = f"{METHODS[result.method]} {result.model} on {result.num_gpus}x {result.gpu}"
    return f"{trained} in {result.precision}, sequences of {count(result.sequence_tokens)}"


def headline(result: TrainingFit) -> str:
    """The verdict in one sentence."""
    memory = result.estimate.memory
    if memory.fits_gpu and not memory.fits_host:
        needs = f"a machine needs {gib(memory.host_need_bytes)} of host memory"
        held = f"{memory.verdict}; the GPU holds its {memory_text(result)}"
        most = f"{result.host_machine} has most, {gib(memory.host_memory_bytes)}"
        return f"{asked_text(result)}: {held}, but {needs}, and {most}."
    end = "" if result.fits else f"; no layout of {count(result.num_layouts)} needs less" * (result.num_layouts > 1)
    return f"{asked_text(result)}: {result.verdict}, {memory_text(result)}{end}."


def memory_text(result: TrainingFit) -> str:
    """Memory of the fullest GPU of what it has, with its range: '19.3 of 23.9 GiB (18.1-21.0)'."""
    total, room = result.estimate.memory.total_bytes, result.estimate.memory.device_bytes
    shown = f"{total.value / GIB:.1f} of {room / GIB:.1f} GiB"
    if total.low is None or total.high is None:
        return shown
    return f"{shown} ({total.low / GIB:.1f}-{total.high / GIB:.1f})"


def facts(result: TrainingFit) -> list[Fact]:
    """Whether it fits, and the most that does."""
    verdict, largest = result.verdict, result.largest
    found = [Fact("Memory", verdict.capitalize(), memory_text(result), memory_look(verdict) if result.fits else "bad")]
    if largest.micro_batch is not None:
        found.append(Fact("Largest micro-batch", count(largest.micro_batch), "all else kept"))
    if largest.sequence_tokens is not None:
        found.append(Fact("Longest sequence", f"{count(largest.sequence_tokens)} tokens", "all else kept"))
    return found


def otherwise_table(result: TrainingFit) -> Table:
    """What the verdict rests on that nobody said, and what usual software takes instead."""
    columns: Columns[OtherStack] = [
        column("assumed", lambda x: x.assumed, wraps=True),
        column("otherwise", lambda x: x.otherwise, wraps=True),
        column("say", lambda x: x.flag or "-", wraps=True),
        number("a GPU", lambda x: ranged(x.total_bytes, None, None, "GiB", GIB, digits=3)),
        column("then", lambda x: x.verdict),
    ]
    return Table.of(result.otherwise, columns, "What the verdict rests on")


def layout_line(result: TrainingFit) -> str:
    """What learns, and how the work is laid out."""
    x = result.estimate.layout
    rank = "" if result.rank is None else f", rank {result.rank}"
    learns = f"{count(result.num_trained_parameters)} of {count(result.num_parameters)} weights learn{rank}"
    kind = "Fastest layout that fits" if result.fits else "Layout with least memory"
    laid = f"{x.label}, micro-batch {x.micro_batch:g} x {x.num_micro_batches:g}, computes {again_words(x)} again"
    return f"{kind}: {laid}; {result.optimizer}. {learns}."


def speed_line(result: TrainingFit) -> str:
    """Tokens a second, whose kernels were measured."""
    speed = result.estimate.speed
    would = "Speed" if result.fits else "Speed if it did fit"
    rate, step = ranged_figure(speed.tokens_per_s_per_gpu, "tokens/s/GPU"), duration(speed.step_s.value)
    used = f"MFU {speed.mfu_ratio * PERCENT:.0f}%"
    size = plural(result.global_batch, "sequence")
    return f"{would}: {rate}, {used}; a step of {size} takes {step}. {grade_line(speed.step_s.grade)}"


def largest_line(result: TrainingFit) -> str:
    """The most that one setting allows, all others kept."""
    most = result.largest
    if most.micro_batch is None and most.sequence_tokens is None:
        return "Neither a smaller micro-batch nor a shorter sequence makes this layout fit."
    limit = " (the model's limit)" if most.sequence_tokens == result.longest_sequence_tokens else ""
    batch = "no micro-batch fits" if most.micro_batch is None else f"micro-batch {count(most.micro_batch)}"
    length = "no sequence fits" if most.sequence_tokens is None else f"{count(most.sequence_tokens)} tokens{limit}"
    sure = f"with {percent(result.confidence)} confidence"
    return f"Most that fits with all else kept, {sure}: {batch}; sequences: {length}."


def changes_table(result: TrainingFit) -> Table:
    """Changes that make it fit, the least first; of some what they need of a machine's own memory, and which has it."""
    columns: Columns[TrainingChange] = [
        column("change", lambda c: c.change, wraps=True),
        column("say", lambda c: c.flag, wraps=True),
        number("a GPU", lambda c: ranged(c.total_bytes, None, None, "GiB", GIB, digits=3)),
        column("then", lambda c: c.verdict),
        column("layout", lambda c: c.layout, priority=1),
    ]
    hosts = [
        f"{c.change}: a machine with {gib(c.host_need_bytes)} of host memory"
        f"{f', such as {c.host_machine}' if c.host_machine else ''}."
        for c in result.changes
        if c.host_bytes
    ]
    title, chosen = "Smallest changes that make it fit", 0 if result.changes else None
    empty = "No change of recomputation, optimizer, precision, sequence or method, and no 8 times the GPUs, is enough."
    return Table.of(result.changes, columns, title, hosts, chosen=chosen, empty=empty)


def training_estimate_page(estimate: TrainingEstimate) -> Page:
    """A step of one layout: how fast it is, what it is made of, and the memory of the fullest GPU."""
    speed = estimate.speed
    trained = f"{METHODS[estimate.method]} {estimate.model} on {estimate.num_gpus}x {estimate.gpu}"
    figure = ranged_figure(speed.tokens_per_s_per_gpu)
    found = f"{figure} tokens/s per GPU, {percent(speed.mfu_ratio)} MFU"
    headline = f"{trained} as {estimate.layout.label}: {estimate.memory.verdict}, {found}."
    return Page(headline, [step_table(speed), memory_table(estimate.memory)], notes=estimate.notes)
