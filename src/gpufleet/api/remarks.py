"""What is said beside the figures of an answer: what they leave out, rest on or would gain from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gpufleet.architecture.vision import image_tokens, patches_together
from gpufleet.catalog.calibration import load_formulas
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture, Attention
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import FP8, Precision, WeightFormat
from gpufleet.layout.support import arithmetic_of, precisions_of
from gpufleet.performance.attention_groups import Heads
from gpufleet.performance.layer_operators import cache_bytes_per_s_of
from gpufleet.performance.recurrence import borrows_full_attention, is_timed_by_formula
from gpufleet.performance.vision import vision_s
from gpufleet.units import GB, MILLISECOND

if TYPE_CHECKING:
    from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution

IMAGE_PIXELS = 1024
WIDENED_LIKE = {"fp8": "8-bit integer", "fp4": "4-bit integer"}


def remarks_on_load(question: EstimateQuestion, solution: EstimateSolution) -> list[str]:
    """All that is to be said about the load."""
    return [
        *beyond_context(question.arch, question.mix.longest_tokens),
        *smaller_batch(question, solution),
        *clients_apart(question),
    ]


def clients_apart(question: EstimateQuestion) -> list[str]:
    """A warning where clients with requests of one length are taken to fall out of step, and may not."""
    several = question.load.scenario == "closed_loop" and question.load.amount > 1
    stays = question.candidates.engine_constant("synchrony_ratio")[0] > 0
    if not several or stays or not question.client.is_alike.all():
        return []
    return [
        "Requests of one length are taken to drift apart, as those of clients over HTTP do. Clients that stay in step "
        "wait for each other's prompts, several times as long: --requests N replays them."
    ]


def remarks_on_replica(arch: Architecture, candidates: Candidates) -> list[str]:
    """All that is to be said about the model and what it runs on, whatever the load."""
    return [
        *unmeasured_kernels(arch),
        *read_for_each_query_head(arch, candidates),
        *arch.notes,
        *images_cost(arch, candidates),
    ]


def beyond_context(arch: Architecture, context_tokens: float) -> list[str]:
    """A warning where a request is longer than the model was made for."""
    if context_tokens <= arch.max_context_tokens:
        return []
    return [
        f"The context of {context_tokens:,.0f} tokens is above the {arch.max_context_tokens:,} that {arch.name} was "
        "made for: engines refuse it unless rope scaling is configured."
    ]


def across_machines(layout: Layout, gpus_per_machine: int) -> str | None:
    """What a figure leaves out where a replica is on several machines."""
    if layout.devices_per_stage > gpus_per_machine:
        return (
            f"{layout.label} spans machines of {gpus_per_machine} GPUs: each exchange is computed as over PCIe at "
            "the rate of their network; nothing like it was measured."
        )
    if layout.num_devices > gpus_per_machine:
        return (
            f"Stages on several machines of {gpus_per_machine} GPUs: transfers between them are not counted; nothing "
            "this large was measured."
        )
    return None


def stages_take_turns(engine: EngineProfile, layout: Layout) -> str | None:
    """What several GPUs do in an engine that splits by layer: hold more, and run no faster unless it is told to."""
    if not engine.splits_by_layer or layout.num_devices == 1:
        return None
    if layout.tp > 1:
        return f"{engine.title} splits by layer unless told otherwise: its {layout.label} was hardly measured."
    return f"{engine.title} gives each GPU a run of layers, and they take turns: {layout.pp} GPUs hold more, no faster."


def widened_formats(engine: EngineProfile, gpu: Accelerator, weights: WeightFormat, cache: Precision) -> Iterator[str]:
    """Warnings where a device computes formats of 8 and 4 bits in 16: nobody measured it here."""
    for precision in precisions_of(weights):
        likened = WIDENED_LIKE.get(precision.arithmetic)
        if likened and arithmetic_of(engine, gpu, precision) != precision.arithmetic:
            yield (
                f"{gpu.name} has no {precision.arithmetic} arithmetic: {engine.title} widens {precision.name} weights "
                f"to 16 bits in each product; timed like kernels of {likened} weights."
            )
    if cache.arithmetic == FP8.arithmetic and not gpu.computes(FP8.arithmetic):
        yield (
            f"{gpu.name} has no fp8 arithmetic: {engine.title} widens the {cache.name} KV cache to 16 bits as it is "
            "read, which saves memory; no such kernel was measured."
        )


def unmeasured_kernels(arch: Architecture) -> list[str]:
    """Why the figures of models with layers that no curve describes bear a lower grade and a wider range."""
    notes = []
    if is_timed_by_formula(arch):
        notes.append("State-space layers are timed by formula: no measured curve describes their kernels here.")
    if borrows_full_attention(arch):
        notes.append(
            "Attention over compressed or selected tokens uses the curves of full attention over as many tokens: "
            "it has no curve of its own."
        )
    return notes


def read_for_each_query_head(arch: Architecture, candidates: Candidates) -> list[str]:
    """The judgement that attention rests on where an engine's version does not share keys and values in a group."""
    mixers = [block.mixer for block in arch.blocks if isinstance(block.mixer, Attention)]
    heads = Heads(
        num_heads=np.array([[m.num_heads] for m in mixers]),
        num_kv_heads=np.array([[m.num_kv_heads] for m in mixers]),
        head_dim=np.array([[m.head_dim] for m in mixers]),
        window_tokens=np.array([[m.window_tokens] for m in mixers]),
    )
    if not np.isfinite(cache_bytes_per_s_of(candidates, heads)).any():
        return []
    passes = candidates.engine_figure("kv_passes_per_query_head", 0.0)[0]
    if passes > 0:
        return [
            f"Keys and values are written out for each query head and moved {passes:g} times a step: a judgement "
            "fitted to published runs of transformers 4.38 and 4.46, not a measured kernel."
        ]
    rate = candidates.engine_figure("cache_bytes_per_s_per_core", np.inf)[0] / GB
    return [
        f"This version reads keys and values anew for each query head, at {rate:g} GB/s for each multiprocessor: a "
        "judgement fitted to published runs of TensorRT-LLM 0.5 to 0.9, not a measured kernel."
    ]


def images_cost(arch: Architecture, candidates: Candidates) -> list[str]:
    """What an image adds to a prompt, where the model reads images; the figures above are of text."""
    peaks = candidates.palette.accelerators[int(candidates.accelerator[0])].peak_flop_per_s
    peak = peaks.get("bf16") or peaks.get("fp16")
    if arch.images is not None:
        return image_notes(arch)
    if arch.vision is None or peak is None:
        return []
    tokens, formula = image_tokens(arch.vision, IMAGE_PIXELS, IMAGE_PIXELS), load_formulas().vision
    seconds = float(vision_s(formula, arch.vision, tokens, patches_together(arch.vision, tokens), peak))
    return [
        f"The figures are for text. An image of {IMAGE_PIXELS:,} x {IMAGE_PIXELS:,} pixels adds {tokens:,.0f} tokens "
        f"to the prompt, and about {seconds / MILLISECOND:.0f} ms of the vision tower to the time to first token (a "
        f"judgement: {formula.flop_ratio.value:.0%} of the peak; no tower was measured)."
    ]


def image_notes(arch: Architecture) -> list[str]:
    """What the images of a question were taken for."""
    if arch.images is None:
        return []
    images, ratio = arch.images.images, load_formulas().vision.flop_ratio.value
    several = f"{images.count:,} images" if images.count > 1 else "An image"
    return [
        f"{several} of {images.width_pixels:,} x {images.height_pixels:,} pixels in each prompt: "
        f"{arch.images.tokens:,.0f} tokens beside its text. The vision tower computes at {ratio:.0%} of the peak, a "
        "judgement: no tower was measured."
    ]


def smaller_batch(question: EstimateQuestion, solution: EstimateSolution) -> list[str]:
    """What to set where a full queue is served best by fewer sequences at a time than the engine would take.

    Batches that are tried are whole; what prompts leave of a step's tokens is not.
    """
    if question.load.scenario != "full_queue" or math.isfinite(question.load.amount) or solution.serving is None:
        return []
    batch = float(solution.serving.batch[0])
    if batch >= solution.largest_batch:
        return []
    if batch != round(batch):
        held = f"{batch:,.0f} of the {solution.largest_batch:,.0f} sequences"
        return [f"No more than {held} that the engine takes decode at a time: prompts have the rest of its steps."]
    return [
        f"Most requests are served at a batch of {batch:,.0f}, smaller than the {solution.largest_batch:,.0f} that the "
        "engine takes: cap it there (vLLM: --max-num-seqs)."
    ]
