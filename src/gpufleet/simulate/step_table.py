"""The steps of one copy of a model as tables of its step model: batch x context, and batch x tokens of prompts.

A step of decoding takes decode[batch, context]. Prompts of q tokens add r (extra[batch, q] + attention), r one of the
fitted constants of the closed form (`performance.serving`); on an engine that decodes nothing they take
max(k (idle[q] + attention), host). A chunk from token h to h + q attends as A(h + q) - A(h). Of attention-DP groups
one may have prompts, or all at once: what stands between is on a straight line.
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.performance.foreseen import ForeseenSteps
from gpufleet.performance.serving import engine_step_s, load_pace
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass

CONTEXT_UNIT, CONTEXT_RATIO = 64, 1.2
WHOLE_BATCHES, BATCH_RATIO = 16, 1.1
FEWEST_PROMPT_TOKENS, PROMPT_RATIO = 16, 1.2
REFERENCE_CONTEXT = 1024.0


@dataclass(frozen=True, eq=False)
class StepTable:
    """Seconds of steps at points of three axes: decode [batch, context], extra [batch, prompt], idle [prompt],
    attention [context].

    Prompts are of one group of ranks; `filled` tables have as many in every group, None where there is one group.
    """

    batches: IntArray
    contexts: FloatArray
    prompts: IntArray
    decode_s: FloatArray
    extra_s: FloatArray
    idle_s: FloatArray
    attention_s: FloatArray
    filled_extra_s: FloatArray | None = None
    filled_idle_s: FloatArray | None = None

    def __post_init__(self) -> None:
        shapes = (self.decode_s.shape, self.extra_s.shape, self.idle_s.shape, self.attention_s.shape)
        b, c, p = len(self.batches), len(self.contexts), len(self.prompts)
        if shapes != ((b, c), (b, p), (p,), (c,)):
            raise ValueError(f"step table: shapes {shapes} on axes of {b}, {c} and {p} points")


def rising_points(first: float, most: float, ratio: float) -> FloatArray:
    """Points from `first` to `most` or just beyond, each `ratio` times the last.

    >>> rising_points(1.0, 5.0, 2.0)
    array([1., 2., 4., 8.])
    """
    count = int(np.ceil(np.log(max(most / first, ratio)) / np.log(ratio) - 1e-9))
    return np.asarray(first * ratio ** np.arange(count + 1))


def batch_axis(most: int) -> IntArray:
    """Batches of a table: every one at first, then a tenth apart; none too."""
    rising = np.ceil(rising_points(WHOLE_BATCHES, max(most, WHOLE_BATCHES + 1), BATCH_RATIO))
    return np.unique(np.concatenate([np.arange(WHOLE_BATCHES), rising]).astype(np.int64))


def context_axis(most: float) -> FloatArray:
    """Contexts of a table, whole units of it."""
    rising = np.ceil(rising_points(1.0, max(most / CONTEXT_UNIT, 2.0), CONTEXT_RATIO))
    return np.unique(np.concatenate([[0.0], rising])) * CONTEXT_UNIT


def prompt_axis(most: int) -> IntArray:
    """Tokens of the prompts of one step."""
    rising = np.ceil(rising_points(FEWEST_PROMPT_TOKENS, max(most, 2 * FEWEST_PROMPT_TOKENS), PROMPT_RATIO))
    return np.unique(np.concatenate([[0], rising]).astype(np.int64))


def step_table(model: StepModel, largest_batch: int, longest_context: float, step_tokens: int) -> StepTable:
    """The table of one candidate, for batches, contexts and prompt tokens up to these.

    Batches are of the whole replica; tokens of prompts of one group of ranks.
    """
    batches, contexts, prompts = batch_axis(largest_batch), context_axis(longest_context), prompt_axis(step_tokens)
    steps = ForeseenSteps.of(model)
    decoding = np.maximum(batches[:, None], 1.0)[..., None]
    seen = np.maximum(contexts[None, :], 1.0)[..., None]
    kernels_s = model.seconds(StepLoad(decoding + 0 * seen, seen + 0 * decoding))
    longest = model.candidates.engine_figure("graphed_context_tokens", np.inf)
    decode_s = engine_step_s(model, kernels_s, decoding, (seen > longest).astype(np.float64))[..., 0]
    others_s = prompt_steps_s(steps, batches, prompts, 1)
    groups = int(model.candidates.num_groups[0])
    filled_s = prompt_steps_s(steps, batches, prompts, groups) if groups > 1 else None
    pace = load_pace(model, decoding[..., 0])
    return StepTable(
        batches=batches,
        contexts=contexts,
        prompts=prompts,
        decode_s=decode_s,
        extra_s=beyond_decoding_s(others_s) * pace,
        idle_s=others_s[0],
        attention_s=np.maximum.accumulate(prompt_attention_s(steps, contexts)),
        filled_extra_s=None if filled_s is None else beyond_decoding_s(filled_s) * pace,
        filled_idle_s=None if filled_s is None else filled_s[0],
    )


def prompt_steps_s(model: StepModel, batches: IntArray, prompts: IntArray, groups: int) -> FloatArray:
    """Kernels of mixed steps [batch, prompt] but for the attention of prompts: one of so many tokens a group   [s]."""
    decoding = np.maximum(batches[:, None, None], 0.0)
    tokens = np.maximum(prompts[None, :, None], 0.0)
    load = StepLoad(decoding + 0 * tokens, REFERENCE_CONTEXT, groups * np.sign(tokens) + 0 * decoding, tokens)
    return of_kind(model, load, of_prompts=False)


def beyond_decoding_s(mixed_s: FloatArray) -> FloatArray:
    """What prompts add to a step [batch, prompt]   [s]."""
    return np.asarray(np.maximum(mixed_s - mixed_s[:, :1], 0.0))


def prompt_attention_s(model: StepModel, contexts: FloatArray) -> FloatArray:
    """The attention of a prompt to itself [context]   [s]."""
    one = np.ones((len(contexts), 1))
    alone = StepLoad(0 * one, 1.0, one, np.maximum(contexts, 1.0)[:, None])
    return of_kind(model, alone, of_prompts=True)


def of_kind(model: StepModel, load: StepLoad, *, of_prompts: bool) -> FloatArray:
    """Seconds of the operators that only prompts need, or of all others, of the one candidate   [s]."""
    parts = [group.total_s(each) for group, each in model.evaluated(load) if group.is_of_prompts == of_prompts]
    shape = np.broadcast(load.decoding, load.decode_context_tokens, load.prefilling, load.prompt_tokens).shape
    return np.asarray(np.broadcast_to(sum(parts, np.zeros(1)), shape)[..., 0])
