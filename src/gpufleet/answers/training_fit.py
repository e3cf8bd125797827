"""Whether a training step fits, as users get it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpufleet.answers.training_estimate import layout_figures, training_estimate
from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.architecture.parameters import num_parameters
from gpufleet.domain.verdict import DOES_NOT_FIT, FITS, TIGHT
from gpufleet.optimize.training_changes import Change
from gpufleet.optimize.training_fit import TrainingPlace, largest_micro_batch, longest_sequence
from gpufleet.optimize.training_stacks import Alternative
from gpufleet.results.training import LargestThatFits, OtherStack, TrainingChange, TrainingFit


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
    return TrainingFit(
        model=arch.name,
        method=recipe.method.value,
        verdict=verdict_of(place, otherwise),
        num_parameters=num_parameters(arch),
        num_trained_parameters=num_parameters(arch) if adapter is None else num_adapter_parameters(arch, adapter),
        gpu=machine.accelerator.name,
        num_gpus=q.num_gpus,
        num_machines=math.ceil(q.num_gpus / machine.num_gpus),
        rank=None if adapter is None else adapter.rank,
        sequence_tokens=recipe.sequence_tokens,
        longest_sequence_tokens=arch.max_context_tokens,
        global_batch=q.global_batch,
        precision=recipe.formats.name,
        optimizer=recipe.optimizer.name,
        confidence=q.confidence,
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
