"""One layout of training as users get it: step, memory, how well GPUs are used, and whether it fits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields

import numpy as np

from gpufleet.answers.figures import explained
from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.architecture.parameters import num_parameters
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.training import Recipe, Recompute, Sharding, TrainingLayouts
from gpufleet.domain.training_constants import TrainingMemoryConstants
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.memory.training import TrainingMemory, training_memory, training_terms
from gpufleet.optimize.training_changes import Change
from gpufleet.optimize.training_fit import TrainingPlace, largest_micro_batch, longest_sequence
from gpufleet.optimize.training_stacks import Alternative
from gpufleet.performance.training import StepTerms, step_terms
from gpufleet.performance.training_bounds import grade_of, time_bounds
from gpufleet.performance.training_kernels import KernelModel
from gpufleet.performance.training_time import TrainingTime, flop_per_token, tokens_per_s_per_gpu
from gpufleet.results.base import Figure
from gpufleet.results.training import (
    LargestThatFits,
    OtherStack,
    TrainingChange,
    TrainingEstimate,
    TrainingFit,
    TrainingLayout,
    TrainingMemoryFigures,
    TrainingSpeed,
)


def training_estimate(time: TrainingTime, constants: TrainingMemoryConstants, notes: list[str]) -> TrainingEstimate:
    """The first layout of a time, with its memory."""
    machine = time.model.machines[int(time.layouts.device[0])]
    layout = layout_figures(time.layouts, 0, time.arch.num_layers)
    return TrainingEstimate(
        model=time.arch.name,
        method=time.recipe.method.value,
        gpu=machine.accelerator.name,
        num_gpus=layout.num_gpus,
        layout=layout,
        speed=speed_figures(time, step_terms(time), 0),
        memory=memory_figures(time, constants, 0),
        notes=notes,
    )


def layout_figures(layouts: TrainingLayouts, row: int, num_layers: int) -> TrainingLayout:
    """A row of layouts by its names."""
    whole = {name: int(getattr(layouts, name)[row]) for name in ("tp", "pp", "interleave", "cp", "ep", "dp")}
    return TrainingLayout(
        **whole,
        sharding=Sharding(int(layouts.sharding[row])).label,
        micro_batch=float(layouts.micro_batch[row]),
        num_micro_batches=float(layouts.num_micro_batches[row]),
        recompute=Recompute(int(layouts.recompute[row])).name.lower(),
        stages_differ=num_layers % (whole["pp"] * whole["interleave"]) != 0,
    )


def speed_figures(time: TrainingTime, terms: StepTerms, row: int) -> TrainingSpeed:
    """The step of one row with its range."""
    step_s, bounds = float(terms.total[row]), time_bounds(time)
    grade = grade_of(time, int(time.layouts.device[row])).label
    low, high = float(bounds.low_ratio[row]), float(bounds.high_ratio[row])
    rate = float(tokens_per_s_per_gpu(time, terms.total)[row])
    exposed = {f.name: float(getattr(terms, f.name)[row]) for f in fields(StepTerms)}
    peak = float(time.at("peak_flop_per_s")[row])
    model_flop, hardware_flop = flop_per_token(time, row)
    return TrainingSpeed(
        step_s=Figure(value=step_s, unit="s", low=step_s * low, high=step_s * high, grade=grade),
        tokens_per_s_per_gpu=Figure(value=rate, unit="tokens/s", low=rate / high, high=rate / low, grade=grade),
        exposed_s={name: seconds for name, seconds in exposed.items() if seconds},
        mfu_ratio=rate * model_flop / peak,
        hfu_ratio=rate * hardware_flop / peak,
        binding=max(exposed, key=lambda name: exposed[name]),
    )


def memory_of(time: TrainingTime, constants: TrainingMemoryConstants) -> TrainingMemory:
    """The memory of all layouts of a time."""
    sizes: FloatArray = np.array([m.accelerator.memory_bytes for m in time.model.machines])
    hosts: FloatArray = np.array([m.host_memory_bytes for m in time.model.machines])
    return training_memory(time.arch, time.recipe, time.layouts, sizes, constants, hosts)


def memory_figures(time: TrainingTime, constants: TrainingMemoryConstants, row: int) -> TrainingMemoryFigures:
    """The memory of one row with its terms."""
    one = TrainingTime(
        KernelModel(time.arch, time.recipe, time.model.machines, time.model.calibration),
        time.layouts.take(np.array([row])),
        time.constants,
    )
    memory = memory_of(one, constants)
    device_bytes, host_bytes = float(memory.device_bytes[0]), float(memory.host_memory_bytes[0])
    terms = training_terms(time.arch, time.recipe, one.layouts, device_bytes, constants)
    return TrainingMemoryFigures(
        total_bytes=band_figure(memory.total.low, memory.total.expected, memory.total.high),
        peak_bytes=band_figure(memory.peak.low, memory.peak.expected, memory.peak.high),
        device_bytes=device_bytes,
        host_bytes=float(memory.host_bytes[0]),
        host_need_bytes=float(memory.host_need_bytes[0]),
        host_memory_bytes=host_bytes if math.isfinite(host_bytes) else None,
        terms=[explained(term) for term in terms],
        verdict=str(memory.verdicts[0]),
    )


def band_figure(low: object, expected: object, high: object) -> Figure:
    """The first element of a band."""
    ends = [float(np.atleast_1d(np.asarray(end))[0]) for end in (low, expected, high)]
    return Figure(value=ends[1], unit="bytes", low=min(ends[0], ends[1]), high=ends[2])


def recipe_words(recipe: Recipe) -> str:
    """What is trained, in a few words: LoRA rank 16 in bf16, AdamW."""
    name = {"full": "all weights", "lora": "LoRA", "qlora": "QLoRA"}[recipe.method.value]
    rank = f" rank {recipe.adapter.rank}" if recipe.adapter else ""
    return f"{name}{rank} in {recipe.formats.name}, {recipe.optimizer.name}"


def training_fit(
    place: TrainingPlace,
    changes: Iterable[tuple[Change, TrainingPlace]],
    too_large: Iterable[tuple[Alternative, TrainingPlace]],
    notes: list[str],
) -> TrainingFit:
    """The chosen layout with its memory and its step, the most that fits, what would help, and where it is tight."""
    otherwise = [other_stack(stack, there) for stack, there in too_large]
    q = place.question
    arch, recipe, machine = q.arch, q.recipe, q.machine
    adapter = recipe.adapter
    return TrainingFit.made_of(
        q,
        recipe,
        model=arch.name,
        method=recipe.method.value,
        verdict=verdict_of(place, otherwise),
        num_parameters=num_parameters(arch),
        num_trained_parameters=num_parameters(arch) if adapter is None else num_adapter_parameters(arch, adapter),
        gpu=machine.accelerator.name,
        num_machines=math.ceil(q.num_gpus / machine.num_gpus),
        rank=None if adapter is None else adapter.rank,
        longest_sequence_tokens=arch.max_context_tokens,
        precision=recipe.formats.name,
        optimizer=recipe.optimizer.name,
        num_layouts=place.num_layouts,
        estimate=training_estimate(place.time, q.memory, []),
        host_machine=host_name(place),
        largest=LargestThatFits(micro_batch=largest_micro_batch(place), sequence_tokens=longest_sequence(place)),
        changes=[training_change(change, there) for change, there in changes],
        otherwise=otherwise,
        notes=[*notes, *fit_notes(place)],
    )


def verdict_of(place: TrainingPlace, otherwise: list[OtherStack]) -> str:
    """The verdict of what is assumed; tight where usual software that nobody ruled out does not fit."""
    verdict = str(place.memory.verdicts[0])
    return TIGHT if verdict == FITS and not all(stack.is_choice for stack in otherwise) else verdict


def fit_notes(place: TrainingPlace) -> list[str]:
    """What the answer rests on that nobody said."""
    machine, q = place.question.machine, place.question
    if q.num_gpus <= machine.num_gpus:
        return []
    network = "usual for them, assumed" if machine.network_is_assumed else "the fastest that they are rented with"
    return [f"Machines of {machine.num_gpus} GPUs are taken, on a network that is {network}"]


def training_change(change: Change, place: TrainingPlace) -> TrainingChange:
    """A change with what it takes then."""
    memory = place.memory
    return TrainingChange(
        change=change.change,
        flag=change.flag,
        layout=layout_figures(place.layouts, 0, place.question.arch.num_layers).label,
        verdict=str(memory.verdicts[0]),
        total_bytes=float(memory.total.expected[0]),  # type: ignore[index]
        device_bytes=float(memory.device_bytes[0]),
        host_bytes=float(memory.host_bytes[0]),
        host_need_bytes=float(memory.host_need_bytes[0]),
        host_machine=host_name(place),
    )


def host_name(place: TrainingPlace) -> str:
    """The machine type whose memory holds what lies outside of the GPUs, or has most; empty where nothing does."""
    return "" if place.host is None else place.host.name


def other_stack(stack: Alternative, place: TrainingPlace) -> OtherStack:
    """What other software takes in its best layout."""
    memory = place.memory
    return OtherStack(
        assumed=stack.assumed,
        otherwise=stack.otherwise,
        flag=stack.flag,
        verdict=DOES_NOT_FIT,
        total_bytes=float(memory.total.expected[0]),  # type: ignore[index]
        device_bytes=float(memory.device_bytes[0]),
        is_choice=stack.is_choice,
    )
