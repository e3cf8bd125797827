"""How prompts and decoding share an engine's steps: how many prompts come together, how many sequences a step has room
for beside them, and for how many steps a client is away between two answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.memory.overhead import batch_limits
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass

FEWEST_PROMPTS = 1e-12
NO_STEPS = np.zeros(1)
CLUMP_STEPS, HALVINGS = 6, 24
MOST_IN_A_ROW = 2.0
"""Steps of prompts for one of decoding, at most, a judgement: slots run out, and those that wait share the next one."""
MOST_ENDED = 16
"""Answers that end in one step, at most, of which the room in a full pool is counted."""
WHOLE_FROM_TOKENS = 2048
"""Pieces of so many tokens are taken as one, a judgement: cut, 4,000 of Llama-3.3-70B took 3 to 5 % longer on L40S."""
CROWDED_RATIO = 0.1
"""Clients that wait, over slots, from which on one is always there to take what an ended answer leaves."""
UNDER_WAY = 0.5
"""Steps that are left, on average, of the one under way."""


def prompts_together(per_step: Floats) -> FloatArray:
    """Prompts of a step that has any, where `per_step` come in a step on average, each at a time of its own.

    n = m / (1 - exp(-m))   [prompts]   m: `per_step`; a Poisson number, given that it is not zero.

    >>> prompts_together([1e-6, 1.0, 20.0]).round(2).tolist()
    [1.0, 1.58, 20.0]
    """
    mean = np.maximum(np.asarray(per_step, dtype=np.float64), FEWEST_PROMPTS)
    return np.asarray(mean / busy_share(mean))


def prompts_in_clumps(per_step: Floats, longer_ratio: Floats) -> FloatArray:
    """Prompts of a step that has any, where such a step lasts longer, and prompts come meanwhile   [prompts].

    n = m / p, p = (1 - exp(-a)) / (1 - exp(-a) + exp(-b)), a = m / (1 + p r), b = a (1 + r)
    `per_step` m come in a step on average, a after a step without prompts, b after one with; `longer_ratio` r: what the
    latter takes more, over the former. p: share of steps with prompts.

    >>> prompts_in_clumps([0.5, 0.5], [0.0, 4.0]).round(2).tolist()
    [1.27, 1.41]
    """
    mean = np.maximum(np.asarray(per_step, dtype=np.float64), FEWEST_PROMPTS)
    longer, busy = np.asarray(longer_ratio, dtype=np.float64), busy_share(mean)
    for _ in range(CLUMP_STEPS):
        after_none = mean / (1 + busy * longer)
        some = busy_share(after_none)
        busy = some / (some + np.exp(-after_none * (1 + longer)))
    return np.asarray(mean / busy)


def prompts_apart(per_step: Floats, longer_ratio: Floats) -> FloatArray:
    """Prompts of a step that decodes nothing, where prompts go before decoding and come while others are prefilled.

    n = m / k, k = min((1 - exp(-a)) exp(a r), m, 2), a = m / (1 + k r)   [prompts]
    `per_step` m come in a step of decoding and the k steps with prompts that follow it, each of which takes
    `longer_ratio` r as long; after one of either kind, the next has prompts if any came in it.

    >>> prompts_apart([0.5, 0.5, 2000.0], [0.0, 1.0, 10.0]).round(2).tolist()
    [1.27, 1.19, 1000.0]
    """
    mean, longer = np.maximum(np.asarray(per_step, dtype=np.float64), FEWEST_PROMPTS), np.asarray(longer_ratio)
    low, high = np.log(busy_share(mean / (1 + mean * longer))), np.log(np.minimum(mean, MOST_IN_A_ROW))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        after_decoding = mean / (1 + np.exp(middle) * longer)
        is_more = np.log(busy_share(after_decoding)) + after_decoding * longer > middle
        low, high = np.where(is_more, middle, low), np.where(is_more, high, middle)
    return np.asarray(mean / np.exp(high))


def busy_share(per_step: Floats) -> FloatArray:
    """Share of steps that have a prompt, where `per_step` come in a step on average: 1 - exp(-m)   [1].

    >>> busy_share([0.0, 1.0, 20.0]).round(2).tolist()
    [0.0, 0.63, 1.0]
    """
    return np.asarray(-np.expm1(-np.asarray(per_step, dtype=np.float64)))


@dataclass(frozen=True)
class ComingPrompts:
    """Prompts of one group of ranks: `per_step` on average, and of a step that has any.

    `together` reach it, as far as it has room for whole ones; `sharing` it are those, whole or the rest of one.
    Where it has any, so have `busy_groups` of those that step together, and all of them wait: `stalls` are the steps
    with prompts of any group for each with prompts of its own. A prompt has `waited` so many steps for others.
    """

    per_step: FloatArray
    together: FloatArray
    sharing: FloatArray
    busy_groups: FloatArray
    stalls: FloatArray
    waited: FloatArray

    @classmethod
    def of(
        cls,
        per_step: FloatArray,
        at_once: FloatArray,
        room_tokens: Floats,
        input_tokens: Floats,
        groups: FloatArray,
        gather_steps: Floats,
        wait_steps: Floats | None = None,
    ) -> ComingPrompts:
        """Prompts of `input_tokens`, n `at_once`, where a step takes `room_tokens`, and `groups` step together.

        together = min(n, max(room / input, 1)), sharing = min(n, 1 + room / input)   [prompts]
        More are there where the first of a step waits `wait_steps` for others: `prompts_awaited`
        Those that wait `gather_steps` for each other's prompts have them in the same step, once all have one.
        """
        waited = NO_STEPS
        if wait_steps is not None:
            at_once, waited = prompts_awaited(per_step, at_once, wait_steps)
        whole = np.asarray(room_tokens) / input_tokens
        busy = groups_together(per_step * (1 + np.asarray(gather_steps)), groups)
        busy = np.where(per_step * gather_steps >= 1, groups, busy)
        together = np.minimum(at_once, np.maximum(whole, 1.0))
        return cls(per_step, together, np.minimum(at_once, 1 + whole), busy, groups / busy, waited)


def prompts_awaited(per_step: FloatArray, at_once: FloatArray, wait_steps: Floats) -> tuple[FloatArray, FloatArray]:
    """Prompts of a step whose first has waited h: `wait_steps` for others, and the steps that each has on average.

    max(`at_once`, 1 + m h)   [prompts],   h (1 + m h / 2) / (1 + m h)   [steps]   m: `per_step`

    >>> [float(x) for x in prompts_awaited(np.array(0.1), np.array(1.05), 20.0)]
    [3.0, 13.333333333333334]
    """
    during = per_step * np.asarray(wait_steps, dtype=np.float64)
    return np.maximum(at_once, 1 + during), np.asarray(wait_steps * (1 + during / 2) / (1 + during))


def steps_to_fill(per_step: Floats, prompts: Floats, most_steps: Floats) -> FloatArray:
    """Steps for which the first prompt waits until there are `prompts`, where `per_step` come in each   [steps].

    min(most_steps, max(ceil(prompts) - 1, 0) / m)

    >>> steps_to_fill(0.1, np.array([0.5, 1.5, 8.0]), 20.0).tolist()
    [0.0, 10.0, 20.0]
    """
    mean = np.maximum(np.asarray(per_step, dtype=np.float64), FEWEST_PROMPTS)
    return np.asarray(np.minimum(most_steps, np.maximum(np.ceil(prompts) - 1, 0.0) / mean))


def groups_together(per_step: Floats, groups: Floats) -> FloatArray:
    """Groups that have a prompt in a step in which any of them has, where `per_step` come to each on average.

    G (1 - exp(-m)) / (1 - exp(-G m))   [groups]   between one of them, where prompts are few, and all

    >>> groups_together([1e-9, 0.5, 20.0], 8.0).round(2).tolist()
    [1.0, 3.21, 8.0]
    """
    mean, all_groups = np.maximum(np.asarray(per_step, dtype=np.float64), FEWEST_PROMPTS), np.asarray(groups)
    return np.asarray(all_groups * busy_share(mean) / busy_share(mean * all_groups))


def decoding_beside_prompts(
    room_tokens: Floats, input_tokens: Floats, output_steps: Floats, tokens_each: Floats = 1.0
) -> FloatArray:
    """Sequences that decode in steps that are always full: each ends after `output_steps` and a prompt follows it.

    B v + B input / output = room, so B = room output / (input + v output)   [sequences]   v: `tokens_each` in a step

    >>> float(decoding_beside_prompts(2048, 1000, 24))
    48.0
    """
    output = np.asarray(output_steps)
    return np.asarray(np.asarray(room_tokens) * output / (np.asarray(input_tokens) + tokens_each * output))


def steps_until_back(until_s: Floats, decode_s: Floats, prompts_s: Floats, per_step: Floats) -> FloatArray:
    """Steps that an engine makes until a client's next prompt has reached it, `until_s` after the last answer.

    w = max(h / (t + p min(x, h)) + 1 / 2, 1)   [steps]
    h: `until_s`, t: `decode_s` of a step, p: share of steps with prompts, which take x: `prompts_s` more. A step that
    outlasts h counts as one; the next prompt joins the step after the one under way.

    >>> float(steps_until_back(0.02, 0.01, 5.0, 1e-6).round(2)), float(steps_until_back(0.02, 0.01, 0.01, 50.0))
    (2.5, 1.5)
    """
    until = np.asarray(until_s, dtype=np.float64)
    mean_s = decode_s + busy_share(per_step) * np.minimum(prompts_s, until)
    return np.asarray(np.maximum(until / mean_s + UNDER_WAY, 1.0))


def steps_met_at_once(until_s: Floats, decode_s: Floats, prompts_s: Floats, per_step: Floats) -> FloatArray:
    """Steps' worth of others' prompts that are prefilled together with one, and so before its first token.

    y / (n + y) c / 2, c = min(x, h) / t, y = m c   [steps]
    While a step takes x more for its prompts, those of c steps of decoding arrive and all join the next: m c of them
    (`per_step` m) beside the n that come together by chance. On its way since halfway, a request meets half of them.

    >>> float(steps_met_at_once(0.02, 0.01, 0.0, 0.5)), float(steps_met_at_once(0.02, 0.01, 5.0, 50.0).round(2))
    (0.0, 0.67)
    """
    during = np.minimum(prompts_s, until_s) / np.asarray(decode_s)
    arrived = np.asarray(per_step) * during
    return np.asarray(arrived / (prompts_together(per_step) + arrived) * during / 2)


def crowding(clients: Floats, slots: Floats) -> FloatArray:
    """How far a pool is crowded: 0 where no client waits for a slot, 1 where a tenth of the slots or more do   [1].

    min(max((C / B - 1) / 0.1, 0), 1)

    >>> crowding([64, 67.2, 128], 64.0).round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(np.clip((np.asarray(clients) / slots - 1) / CROWDED_RATIO, 0.0, 1.0))


def growth_short_of_room(ended_per_step: Floats, freed_ratio: Floats) -> FloatArray:
    """Share of what sequences of a full pool grow by for which too few answers end in the same step   [1].

    sum over k of P(k) max(1 - k f / m, 0), P: Poisson of mean m
    m: answers that end in a step on average (`ended_per_step`), each of which frees f (`freed_ratio`) times the tokens
    by which all sequences grow from one end to the next. Where an end is rare, prompts have taken what the last one
    left before others grew; where many come in a step, they make room for the growth of that step.

    >>> growth_short_of_room([1e-6, 1.0, 4.0], [2.0, 2.0, 2.0]).round(2).tolist()
    [1.0, 0.37, 0.05]
    """
    mean = np.maximum(np.asarray(ended_per_step, dtype=np.float64), FEWEST_PROMPTS)
    chance, short = np.exp(-mean), np.exp(-mean)
    for ended in range(1, MOST_ENDED):
        chance = chance * mean / ended
        short = short + chance * np.maximum(1.0 - ended * np.asarray(freed_ratio) / mean, 0.0)
    return np.asarray(short)


@dataclass(frozen=True)
class StepRules:
    """What each candidate's engine puts into a step, per group of ranks.

    `room_tokens` of prompts and decoding together at most, or any one context where it `takes_contexts` (1, else 0)
    that are longer, up to the `longest_tokens` that it was told to take. Where it `awaits_room`, a prompt waits until
    a step has room for all of it beside what decodes. In `own_steps` of decoding (1 or 0) a prompt is prefilled: 0
    where prompts have steps of their own. Where the device `waits_for_host` before a step of prompts, that takes what
    it takes on an idle engine. A client sees tokens `late_steps` late. At most `most_sequences` decode in all groups,
    and where it `sets_aside` an answer's tokens in the KV pool, whole, none is preempted.
    """

    most_sequences: FloatArray
    sets_aside: BoolArray
    waits_for_host: BoolArray
    room_tokens: FloatArray
    takes_contexts: FloatArray
    awaits_room: BoolArray
    longest_tokens: float
    own_steps: FloatArray
    late_steps: FloatArray
    host_ratio: FloatArray

    def room_for(self, input_tokens: Floats, output_tokens: Floats) -> FloatArray:
        """Tokens that a step of requests of these lengths takes at most."""
        whole = np.maximum(np.asarray(input_tokens) + output_tokens, self.longest_tokens)
        return np.maximum(self.room_tokens, self.takes_contexts * whole)

    def room_beside(self, room_tokens: FloatArray, decoding: Floats, input_tokens: Floats) -> FloatArray:
        """What a step of so many tokens has for prompts beside what decodes; none for a prompt that awaits more."""
        left = room_tokens - decoding
        return np.where(self.awaits_room & (left < input_tokens), 0.0, left)


def step_rules(model: StepModel) -> StepRules:
    """The rules of all candidates of a model, which is asked for them `once`."""
    c = model.candidates
    own_steps, host_s = c.engine_figure("mixes_prompts", 1.0), c.engine_figure("host_sequence_s", 0.0)
    return StepRules(
        most_sequences=of_every_card(c, lambda engine, gpu: float(batch_limits(engine, gpu)[0])) * c.attention_dp,
        sets_aside=c.engine_figure("reserved_output_ratio", 0.5) >= 1,
        waits_for_host=(own_steps <= 0) & (host_s > 0),
        room_tokens=step_room_tokens(c),
        takes_contexts=c.engine_figure("whole_context", 0.0),
        awaits_room=(c.engine_figure("awaits_whole_room", 0.0) > 0) & (own_steps > 0),
        longest_tokens=float(model.arch.max_model_len or 0),
        own_steps=own_steps,
        late_steps=late_steps(c),
        host_ratio=np.where(host_s > 0, host_ratio(model), 1.0),
    )


def host_ratio(model: StepModel) -> FloatArray:
    """What a host takes in the machines that each candidate's card is sold in, over newer ones   [1]."""
    older = model.hardware.calibration.formulas.engine_steps.older_host_ratio.value
    return of_every_card(model.candidates, lambda _, gpu: older if gpu.is_in_older_machines else 1.0)


def kernels_of_prompts_s(model: StepModel, load: StepLoad, decode_s: FloatArray) -> FloatArray:
    """What the prompts of a load add to its decoding; all of their step where the device waits for the host   [s]."""
    beside_s, waits = kernels_in_pieces_s(model, load, decode_s), model.once(step_rules).waits_for_host
    return np.where(waits, kernels_in_pieces_s(model, alone(load)), beside_s) if waits.any() else beside_s


def alone(load: StepLoad) -> StepLoad:
    """The prompts of a load in a step of their own."""
    return StepLoad(np.zeros_like(load.decoding), 1.0, load.prefilling, load.prompt_tokens)


def kernels_in_pieces_s(model: StepModel, load: StepLoad, decode_s: Floats = 0.0) -> FloatArray:
    """What the prompts of a load add to its decoding, in as many steps as the engine cuts them into   [s].

    t - t_decode in one step; in p = tokens / (budget - B): p (t(piece) - a(piece) - t_decode) + a
    a: attention of prompts, which sees what came before in pieces as in one. All else reads its weights in every step.
    Pieces of 2,048 tokens or more are as good as one.
    """
    budget, whole_s = model.once(piece_tokens), model.seconds(load)
    if budget is None:
        return np.asarray(whole_s - decode_s)
    room = np.maximum(budget - load.decoding, 1.0)
    pieces = np.maximum(load.prefilling * np.asarray(load.prompt_tokens) / room, 1.0)
    if not (pieces > 1).any():
        return np.asarray(whole_s - decode_s)
    prompts = np.minimum(load.prefilling, np.maximum(load.prefilling / pieces, 1.0))
    piece = StepLoad(load.decoding, load.decode_context_tokens, prompts, np.minimum(load.prompt_tokens, room))
    again_s = pieces * (model.seconds(piece) - model.prompt_attention_s(piece) - decode_s)
    return np.asarray(np.where(pieces > 1, again_s + model.prompt_attention_s(load), whole_s - decode_s))


def piece_tokens(model: StepModel) -> FloatArray | None:
    """Tokens into which engines cut prompts, of all groups: no end where whole ones do as well; None where all do."""
    c, rules = model.candidates, model.once(step_rules)
    is_cut = (rules.room_tokens < WHOLE_FROM_TOKENS) & (rules.takes_contexts <= 0)
    return np.where(is_cut, rules.room_tokens * c.num_groups, np.inf) if is_cut.any() else None


def step_room_tokens(candidates: Candidates) -> FloatArray:
    """Tokens that a step of one group takes: the engine's budget on the card; no end where it does not cut prompts."""
    return of_every_card(candidates, room_of)


def of_every_card(candidates: Candidates, figure: Callable[[EngineProfile, Accelerator], float]) -> FloatArray:
    """A figure of each candidate's engine on its card."""
    palette = candidates.palette
    every = [[figure(engine, gpu) for gpu in palette.accelerators] for engine in palette.engines]
    return np.asarray(np.array(every, dtype=np.float64)[candidates.engine, candidates.accelerator])


def room_of(engine: EngineProfile, accelerator: Accelerator) -> float:
    """The same of one engine on one card."""
    if engine.figure("whole_prompt", 0.0) > 0:
        return float("inf")
    return engine.figure("profiled_chunk_tokens", float(batch_limits(engine, accelerator)[1]))


def late_steps(candidates: Candidates) -> FloatArray:
    """Steps after which a client sees a token: those that the engine makes ahead, where it says how many.

    Else all that the fit found between arrival and first token, n, but for the rest of the step under way: n - 1/2.
    """
    fitted = candidates.engine_constant("first_token_steps") - UNDER_WAY
    said = candidates.engine_figure("steps_ahead", np.nan)
    return np.where(np.isnan(said), np.maximum(fitted, 0.0), said)
