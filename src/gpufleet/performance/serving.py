"""What an engine delivers: TTFT, TPOT and throughput of continuous and static batching, in closed form.

Constants of an engine (`data/calibration/engines.toml`), by name:
decode_scale_ratio, step_overhead_s                     one decode step = scale * kernels + step
kernel_overhead_s, sequence_overhead_s                  + kernel * kernels launched + sequence * sequences of a group
reduction_overhead_s                                    + reduction * all-reduces * (tp - 1): ranks wait for the slowest
prefill_mixing_ratio                                    what a prompt among steps of decoding costs, over its kernels
prefill_scale_ratio, eager_kernel_s                     one prefill = max(scale * kernels, r * eager * calls)
prefill_launch_ratio                                    r: host time of calls for prompts, over those for single tokens
request_overhead_s, token_overhead_s, first_token_steps time to first token beside the prefill
rank_overhead_s                                         + rank * (ranks of a stage - 1): a request reaches every rank
poll_wait_ratio                                         share of the polling interval that a new request waits
synchrony_ratio (`data/engines`)                        how far clients with equal requests move in step
reserved_output_ratio (`data/engines`)                  share of an answer for which a sequence counts in the KV pool
eager_kernel_s                                          host time of a call that no CUDA graph recorded, in steps too
busy_launch_ratio (`data/engines`)                      share of launches of prompts for which those that decode wait
eager_<format>_ratio                                    of a kernel with weights in this format over eager_kernel_s
eager_expert_s (`data/engines`)                         host time of an expert where all are walked through
host_sequence_s (`data/engines`)                        host time of every further sequence, the device waiting
least_ratio (`data/calibration/formulas.toml`)          of its kernels' seconds that a decode step takes at least
"""

from __future__ import annotations

import numpy as np

from gpufleet.domain.architecture import MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import LOAD_SLOPE
from gpufleet.domain.own_stack import USUAL_SEQUENCES
from gpufleet.domain.precision_labels import AWQ
from gpufleet.performance.queueing import loop_wait_s
from gpufleet.performance.shared_steps import (
    ComingPrompts,
    alone,
    crowding,
    decoding_beside_prompts,
    growth_short_of_room,
    kernels_in_pieces_s,
    kernels_of_prompts_s,
    prompts_apart,
    prompts_in_clumps,
    prompts_together,
    step_rules,
    steps_met_at_once,
    steps_to_fill,
    steps_until_back,
)
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass

HIGHEST_LOAD_RATIO = 0.95
SHORTEST_SERVICE_S = 1e-9
LAUNCHES_OF_A_PIECE, SHARPNESS = 6, 4


@dataclass(frozen=True)
class Lengths:
    """Tokens of a request: `input_tokens` of prompt and `output_tokens` generated (mean values)."""

    input_tokens: Floats
    output_tokens: Floats

    @property
    def mean_decode_context_tokens(self) -> Floats:
        """Context that a decode step sees on average: the prompt and half of the output."""
        return self.input_tokens + self.output_tokens / 2


@dataclass(frozen=True)
class Client:
    """How the client behaves, and how it had the engine started.

    `waves` prompts per client, with lengths drawn from [1 - length_spread_ratio, 1] of the longest: 0 means that all
    requests are alike, 1 that they are as users' are. The engine looks for new requests every `poll_interval_steps`
    steps of decoding, and attention-DP groups wait up to `gather_steps` for each other's prompts. Those of one group
    wait up to `batch_wait_steps` for more, until all tokens of a step are `batch_wait_ratio` of its budget. A replay's
    clients see first tokens `late_steps` steps (None: as many as the engine is known for) and `late_s` late among
    others. `over_http`: a server lies between client and engine.
    """

    waves: Floats = np.inf
    length_spread_ratio: Floats = 1.0
    poll_interval_steps: Floats = 1.0
    gather_steps: Floats = 0.0
    batch_wait_steps: Floats = 0.0
    batch_wait_ratio: Floats = 0.0
    late_steps: float | None = None
    late_s: float = 0.0
    over_http: bool = True

    @property
    def is_alike(self) -> BoolArray:
        """Whether all requests have the same lengths."""
        return np.asarray(self.length_spread_ratio) <= 0

    @property
    def has_batch_wait(self) -> bool:
        """Whether prompts of a group wait for more of them."""
        return bool(np.ndim(self.batch_wait_steps) or self.batch_wait_steps)


ANY_CLIENT = Client()


@dataclass(frozen=True)
class Phases:
    """Seconds of the two things that a busy engine does, per candidate at one batch.

    `decode_step_s` gives every sequence a token; `prompt_extra_s` is what one prompt adds to such a step, to which
    `prompts` come, and takes `launch_extra_s` at least: its part of what the host needs to launch their step.
    """

    decode_step_s: FloatArray
    prompt_extra_s: FloatArray
    prompts: ComingPrompts
    launch_extra_s: FloatArray


@dataclass(frozen=True)
class Serving:
    """Steady continuous batching of one replica."""

    batch: FloatArray
    tpot_s: FloatArray
    ttft_s: FloatArray
    requests_per_s: FloatArray

    def output_tokens_per_s(self, lengths: Lengths) -> FloatArray:
        """Tokens generated per second by the replica."""
        return np.asarray(self.requests_per_s * lengths.output_tokens, dtype=np.float64)


def admitted_context_tokens(candidates: Candidates, lengths: Lengths) -> FloatArray:
    """Tokens of the KV pool that each sequence of a closed loop counts for.

    input + r output, r = 1 / 2: what it holds on average; engines that never evict set all of its answer aside.
    """
    reserved = candidates.engine_figure("reserved_output_ratio", 0.5)
    return np.asarray(lengths.input_tokens + reserved * lengths.output_tokens, dtype=np.float64)


def output_steps(candidates: Candidates, lengths: Lengths) -> Floats:
    """Steps of decoding that an answer takes: fewer than its tokens where drafts are accepted   [steps]."""
    return lengths.output_tokens / candidates.tokens_per_step


def decode_load(batch: FloatArray, lengths: Lengths) -> StepLoad:
    """A step in which every sequence of `batch` gets a token."""
    return StepLoad(batch, lengths.mean_decode_context_tokens)


def mixed_load(model: StepModel, batch: FloatArray, lengths: Lengths, coming: ComingPrompts) -> StepLoad:
    """A step in which the prompts that come together join the other sequences of `batch`."""
    prompts = coming.together * coming.busy_groups * model.candidates.micro_batches
    others = np.maximum(batch - 1, 0.0)
    return StepLoad(others, lengths.mean_decode_context_tokens, prompts, lengths.input_tokens)


def coming_prompts(
    model: StepModel, batch: FloatArray, lengths: Lengths, client: Client = ANY_CLIENT, chance_s: Floats | None = None
) -> ComingPrompts:
    """Prompts of a group's steps: one for each answer that ends, B / (output steps x groups) in each on average.

    Groups of attention-DP step together; those that wait for each other's prompts have them in the same step.
    `chance_s`: a decode step where they come by chance, and not as answers end: fewer of those that stand apart
    share a step.
    """
    c, rules = model.candidates, model.once(step_rules)
    room = rules.room_for(lengths.input_tokens, lengths.output_tokens)
    per_step, groups = batch / output_steps(c, lengths) / c.num_groups, c.attention_dp.astype(np.float64)
    at_once, wait = prompts_together(per_step), batch_wait(model, per_step, lengths, client)
    if chance_s is not None and rules.waits_for_host.any():
        one_s = prefill_step_s(model, np.ones(len(c)), lengths)
        at_once = np.where(rules.waits_for_host, prompts_apart(per_step, one_s / chance_s), at_once)
    return ComingPrompts.of(per_step, at_once, room, lengths.input_tokens, groups, client.gather_steps, wait)


def batch_wait(model: StepModel, per_step: FloatArray, lengths: Lengths, client: Client) -> Floats | None:
    """Steps that the first of some prompts waits for more: `steps_to_fill`; None where nobody asked the engine for it.

    The prompts of (ratio x budget - what decodes) / input_tokens; m x output steps of a group decode.
    """
    if not client.has_batch_wait:
        return None
    decoding = per_step * output_steps(model.candidates, lengths) * model.candidates.verified_tokens
    tokens = client.batch_wait_ratio * model.once(step_rules).room_tokens - decoding
    return steps_to_fill(per_step, tokens / lengths.input_tokens, client.batch_wait_steps)


def busy_loads(model: StepModel, batch: FloatArray, lengths: Lengths, client: Client = ANY_CLIENT) -> list[StepLoad]:
    """The kinds of steps at these batches: of decoding, with prompts, and of prompts where those stand apart."""
    mixed = mixed_load(model, batch, lengths, coming_prompts(model, batch, lengths, client))
    apart = [alone(mixed)] if model.once(step_rules).waits_for_host.any() else []
    return [decode_load(batch, lengths), mixed, *apart]


def prompts_load(prompts: FloatArray, lengths: Lengths) -> StepLoad:
    """A step of `prompts` prompts that find the engine idle."""
    return StepLoad(np.zeros(prompts.shape[-1]), 1.0, prompts, lengths.input_tokens)


def engine_step_s(model: StepModel, kernels_s: FloatArray, batch: Floats, eager: Floats = 0.0) -> FloatArray:
    """One decode step of `batch` sequences as the engine runs it, a share `eager` of steps without CUDA graphs.

    t = max(k t_kernels + pp o_step + o_kernel N + o_reduction R (tp - 1) + o_sequence B / groups,
            least_ratio t_kernels) + o_host (B - 1)   [s]
    eager: max(t, o_eager N), where the host launches kernels one by one beside the device that runs them.
    N: kernels of a step; R: its all-reduces, each of which waits for the slowest rank. A negative o_kernel is
    programmatic launch, which hides part of every kernel's fixed time.
    o_sequence: sampling and bookkeeping of the host for each sequence, and each token of it that is verified. o_host:
    what a host that works while the device waits takes for every further one. o_step: with what each pass of a draft
    takes beside its kernels. Where users measured how their steps grow, t (B / 16)^slope.
    """
    host = model.once(host_times)
    step_s = host.scale_ratio * kernels_s + host.step_s + host.sequence_s * batch
    step_s = step_s * load_pace(model, batch)
    graphed_s = np.maximum(step_s, host.least_ratio * kernels_s)
    late_s = np.maximum(host.eager_step_s - graphed_s, 0.0)
    further_s = host.further_s * np.maximum(np.asarray(batch) - 1, 0.0)
    return np.asarray(graphed_s + eager * late_s + further_s, dtype=np.float64)


@dataclass(frozen=True)
class HostTimes:
    """What an engine adds to the kernels of a decode step, per candidate, whatever the load.

    `scale_ratio` of the kernels, `step_s` of every step, `sequence_s` of every sequence of the replica, `further_s` of
    every one but the first while the device waits;
    `eager_step_s`: the host launching all kernels one by one. No step takes less than `least_ratio` of its kernels.
    """

    scale_ratio: FloatArray
    step_s: FloatArray
    sequence_s: FloatArray
    further_s: FloatArray
    eager_step_s: FloatArray
    least_ratio: float
    load_slope: FloatArray | None = None


def load_pace(model: StepModel, batch: Floats) -> Floats:
    """How many times as long steps of `batch` sequences take as its user measured how they grow: (B / 16)^slope."""
    slope = model.once(host_times).load_slope
    return 1.0 if slope is None else np.asarray((np.maximum(batch, 1.0) / USUAL_SEQUENCES) ** slope)


def host_times(model: StepModel) -> HostTimes:
    """The fitted constants of each candidate's engine on the kernels of its step."""
    c, known = model.candidates, model.candidates.engine_constant
    drafting_s = c.engine_figure("draft_pass_s", 0.0) * c.draft_passes if model.drafts else 0.0
    return HostTimes(
        scale_ratio=known("decode_scale_ratio"),
        step_s=known("step_overhead_s") * c.micro_batches + between_kernels_s(model) + drafting_s,
        sequence_s=known("sequence_overhead_s") * c.verified_tokens / c.attention_dp,
        further_s=model.candidates.engine_figure("host_sequence_s", 0.0) * model.once(step_rules).host_ratio,
        eager_step_s=launches_s(model),
        least_ratio=model.hardware.calibration.formulas.engine_steps.least_ratio.value,
        load_slope=slopes if (slopes := c.engine_figure(LOAD_SLOPE, 0.0)).any() else None,
    )


def between_kernels_s(model: StepModel) -> FloatArray:
    """What launching each kernel adds to a step, and each all-reduce for every further rank that it waits for   [s]."""
    c, known = model.candidates, model.candidates.engine_constant
    reductions = model.arch.num_reductions + (model.drafts.num_reductions if model.drafts else 0)
    waits = reductions * (c.tp - 1)
    return np.asarray(known("kernel_overhead_s") * model.num_kernels + known("reduction_overhead_s") * waits)


def launches_s(model: StepModel, tokens: Floats = np.inf) -> FloatArray:
    """The host launching all kernels of a step of `tokens` one by one, by the format of the weights   [s].

    o_eager r_format N + o_expert E   N: calls, of which that of a product in fewer bits also quantises its input
    r: 1 but for formats whose products take longer to launch (`eager_<format>_ratio`)
    E: routed experts of all layers, which some engines walk through one by one, chosen or not (`eager_expert_s`).
    Steps of up to `piece_graph_tokens` are recorded in pieces: o_eager for the attention and the piece of each layer.
    """
    parts = [(block.count, block.feed_forward) for block in model.arch.blocks]
    experts = sum(count * part.num_experts for count, part in parts if isinstance(part, MixtureOfExperts))
    walked_s = model.candidates.engine_figure("eager_expert_s", 0.0) * experts
    kernel_s = eager_kernel_s(model.candidates)
    pieces_s = LAUNCHES_OF_A_PIECE * kernel_s * model.arch.num_layers
    recorded = np.asarray(tokens) <= model.candidates.engine_figure("piece_graph_tokens", 0.0)
    return np.asarray(np.where(recorded, pieces_s, kernel_s * model.num_calls + walked_s), dtype=np.float64)


def prompt_launches_s(model: StepModel, tokens: Floats = np.inf) -> FloatArray:
    """The host launching a step with `tokens` of prompts: r of what the same calls take in decoding   [s].

    r: `prefill_launch_ratio`; by engine, a call for prompts is made of more launches than one for single tokens. Where
    the device waits for the host, hosts of older machines take `older_host_ratio` times as long.
    """
    ratio = model.candidates.engine_constant("prefill_launch_ratio") * model.once(step_rules).host_ratio
    return np.asarray(ratio * launches_s(model, tokens))


def eager_kernel_s(candidates: Candidates) -> FloatArray:
    """Host time of a call that no CUDA graph recorded, by the format of the weights   [s]."""
    names = [AWQ if weights.is_awq else weights.mlp.name for weights in candidates.palette.weight_formats]
    ratios = np.array([candidates.engine_figure(f"eager_{name}_ratio", 1.0) for name in names])
    of_format = ratios[candidates.weight_format, np.arange(len(candidates))]
    return np.asarray(candidates.engine_constant("eager_kernel_s") * of_format, dtype=np.float64)


def eager_share(model: StepModel, lengths: Lengths, batch: Floats = 0.0) -> FloatArray:
    """Share of a request's decode steps whose context is longer than the engine's CUDA graphs were recorded for   [1].

    clip((input + output - longest) / output, 0, 1); engines without graphs record 0 tokens. All of them where drafts
    make a step of more tokens than any graph was recorded for.
    """
    longest = model.candidates.engine_figure("graphed_context_tokens", np.inf)
    beyond = lengths.input_tokens + lengths.output_tokens - longest
    share = np.minimum(np.maximum(beyond / np.maximum(lengths.output_tokens, 1.0), 0.0), 1.0)
    return np.where(drafts_beyond_graphs(model.candidates, batch), 1.0, share) if model.candidates.drafts_any else share


def drafts_beyond_graphs(candidates: Candidates, batch: Floats) -> BoolArray:
    """Where the tokens that a group verifies are more than graphs were recorded for, which count tokens and not drafts.

    vLLM records up to 512 tokens of a step whatever is drafted (vllm pull/50488, issues/27325).
    """
    c = candidates
    recorded = c.engine_figure("drafted_graph_tokens", np.inf)
    return np.asarray((c.verified_tokens > 1) & (batch * c.verified_tokens / c.num_groups > recorded))


def phases(
    model: StepModel, batch: FloatArray, lengths: Lengths, client: Client = ANY_CLIENT, *, by_chance: bool = False
) -> Phases:
    """Decode step at `batch`, and what one prompt adds to such a step.

    Prompts that come together share a step and the reading of the weights:
    t_prompt = (t_mixed(B, n prompts) - t_decode(B)) / n, n that come together in a group which has any; in pieces
    where a prompt is longer than the budget of a step. They come `by_chance`, at any time, or as answers end.
    """
    decode_s = model.seconds(decode_load(batch, lengths))
    step_s = engine_step_s(model, decode_s, batch, eager_share(model, lengths, batch))
    prompts = coming_prompts(model, batch, lengths, client, step_s if by_chance else None)
    kernels_s = kernels_of_prompts_s(model, mixed_load(model, batch, lengths, prompts), decode_s)
    extra_s = np.maximum(kernels_s, 0.0) / prompts.together * load_pace(model, batch)
    return Phases(step_s, extra_s, prompts, launch_extra_s(model, step_s, batch, prompts, lengths))


def launch_extra_s(
    model: StepModel, step_s: FloatArray, batch: FloatArray, prompts: ComingPrompts, lengths: Lengths
) -> FloatArray:
    """What a prompt adds to a step that the host launches kernel by kernel, where it needs longer than the device.

    x / n, x = max(launches - t_decode, 0), launches where prompts have steps of their own   [s]
    n: `prompts_in_clumps`, at most 1 + room / input; those that stand apart come together as `coming_prompts` says. A
    prompt that takes several steps waits for the host in each.
    """
    own = batch * model.candidates.verified_tokens / model.candidates.num_groups
    rules = model.once(step_rules)
    tokens = np.minimum(prompts.sharing * lengths.input_tokens + own, rules.room_tokens)
    waited_s = busy_launch_ratio(model.candidates) * prompt_launches_s(model, tokens)
    beside_s = np.maximum(waited_s - rules.own_steps * step_s, 0.0)
    clumps = prompts_in_clumps(prompts.per_step, beside_s / step_s)
    clumps = np.where(rules.waits_for_host, prompts.sharing, clumps)
    sharing = np.minimum(clumps, 1 + rules.room_tokens / lengths.input_tokens)
    return np.asarray(beside_s * np.maximum(lengths.input_tokens / rules.room_tokens, 1.0) / sharing)


def busy_launch_ratio(candidates: Candidates) -> FloatArray:
    """Share of the launches of a step with prompts for which its engine waits where others decode   [1]."""
    return candidates.engine_figure("busy_launch_ratio", 0.0)


def longest_gap_s(at: Phases, input_tokens: Floats, step_tokens: Floats) -> FloatArray:
    """Time between two tokens of a sequence when a neighbour's prompt joins the step, as much of it as a step takes.

    t_decode(B) + t_prompt min(step_tokens / input_tokens, 1)   [s]
    A prompt longer than `step_tokens` (--max-num-batched-tokens, chunked prefill) stretches several steps in a row.
    """
    chunk = np.minimum(np.asarray(step_tokens) / np.asarray(input_tokens), 1.0)
    return np.asarray(at.decode_step_s + at.prompt_extra_s * chunk)


def decode_step_s(model: StepModel, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """A decode step of `batch` sequences at their mean context, as the engine runs it   [s]."""
    kernels_s = model.seconds(decode_load(batch, lengths))
    return engine_step_s(model, kernels_s, batch, eager_share(model, lengths, batch))


def lone_ttft_s(model: StepModel, lengths: Lengths, prompts: Floats = 1.0) -> FloatArray:
    """Time to first token of `prompts` requests that find the engine idle and are prefilled together.

    TTFT = a + b input_tokens + max(k_p t_kernels, r l N)   [s]
    a: request handling, b: tokenising, k_p: engine over kernels, r l: the host's time to launch each of the N kernels
    of a prefill that finds the device idle.
    """
    c = model.candidates
    prompts = np.full(len(c), prompts) if np.ndim(prompts) == 0 else np.asarray(prompts)
    return np.asarray(request_host_s(model, lengths) + prefill_step_s(model, prompts, lengths), dtype=np.float64)


def request_host_s(model: StepModel, lengths: Lengths) -> FloatArray:
    """What the host does for a request before its prompt reaches the device: handling and tokenising   [s]."""
    return request_s(model.candidates) + model.candidates.engine_constant("token_overhead_s") * lengths.input_tokens


def request_s(candidates: Candidates) -> FloatArray:
    """Taking a request of any length, and handing it to the processes of all ranks of a stage   [s]."""
    known = candidates.engine_constant
    return np.asarray(known("request_overhead_s") + known("rank_overhead_s") * (candidates.devices_per_stage - 1))


def prefill_step_s(model: StepModel, prompts: FloatArray, lengths: Lengths) -> FloatArray:
    """Steps of `prompts` prompts and nothing else, as the engine runs them: max(k_p t_kernels, r l N)   [s]."""
    kernels_s = kernels_in_pieces_s(model, prompts_load(prompts, lengths))
    return prefill_run_s(model, kernels_s, prompts * lengths.input_tokens)


def prefill_run_s(model: StepModel, kernels_s: FloatArray, tokens: Floats) -> FloatArray:
    """The same where its kernels' seconds are known."""
    known = model.candidates.engine_constant
    scaled_s = known("prefill_scale_ratio") * kernels_s
    return np.asarray(np.maximum(scaled_s, prompt_launches_s(model, tokens)), dtype=np.float64)


def synchrony(model: StepModel, client: Client) -> FloatArray:
    """Share of a closed loop in which clients move in step: they send, wait and finish together.

    s = max(first wave / waves, s_engine where all requests are alike)   [1]
    An engine that prefills before it decodes keeps requests of one length together; lengths that differ part them.
    """
    together = np.where(client.is_alike, model.candidates.engine_constant("synchrony_ratio"), 0.0)
    return np.maximum(1.0 / np.asarray(client.waves), together)


def tpot_s(model: StepModel, at: Phases, batch: FloatArray, lengths: Lengths, in_step: Floats = 0.0) -> FloatArray:
    """Time per output token in continuous batching.

    TPOT = (t_decode(B) + (1 - s / 2) (B - 1) / output x service of a prompt) / accepted   [s]
    output: steps of an answer, each of which yields `accepted` tokens: 1 where the engine drafts none.
    While a request decodes its output, each of its B - 1 neighbours is replaced once, and each replacement's prompt
    lengthens one of its steps. Clients in step (s) meet half of these prompts before their first token instead.
    """
    service_s = prompt_service_s(model, at)
    return among_others_s(model.candidates, at, neighbours(model, batch), lengths, service_s, in_step)


def among_others_s(
    candidates: Candidates, at: Phases, others: Floats, lengths: Lengths, service_s: FloatArray, in_step: Floats
) -> FloatArray:
    """Time per output token where `others` decode in the same steps, each of which makes room for a prompt in turn.

    A step of attention-DP takes as long as that of the group with the longest prompt: `stalls` for each of one's own.
    """
    met = (1 - np.asarray(in_step) / 2) * others / output_steps(candidates, lengths) * at.prompts.stalls
    return np.asarray((at.decode_step_s + met * service_s) / candidates.tokens_per_step, dtype=np.float64)


def neighbours(model: StepModel, batch: FloatArray) -> FloatArray:
    """Other sequences that share the steps of one, those of its group and micro-batch   [sequences]."""
    return np.asarray(np.maximum(batch - 1, 0.0) / model.candidates.num_groups)


def cycle_s(model: StepModel, at: Phases, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """Time that a request occupies a batch slot: its prompt's service, its decode steps and its neighbours' prompts."""
    service_s = prompt_service_s(model, at)
    per_token_s = among_others_s(model.candidates, at, neighbours(model, batch), lengths, service_s, 0.0)
    return np.asarray(service_s + per_token_s * lengths.output_tokens, dtype=np.float64)


def carried_requests_per_s(model: StepModel, at: Phases, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """Requests that `batch` slots carry: B / cycle, never more prompts than the groups have time for   [1/s]."""
    return requests_in_slots_per_s(batch, cycle_s(model, at, batch, lengths))


def requests_in_slots_per_s(batch: FloatArray, cycles_s: FloatArray) -> FloatArray:
    """Requests that `batch` slots carry, each of which holds one for its cycle   [1/s]."""
    return np.asarray(batch / np.maximum(cycles_s, SHORTEST_SERVICE_S))


def closed_loop(
    model: StepModel, concurrency: FloatArray, lengths: Lengths, largest_batch: Floats, client: Client
) -> Serving:
    """`concurrency` clients that send the next request when the last one is answered.

    `largest_batch` is what the KV pool and the engine admit; the other clients queue for a slot. Requests/s are clients
    over the time of an answer (Little's law), and no answer comes sooner than the slots carry them.
    """
    concurrency = np.asarray(concurrency, dtype=np.float64)
    batch = loop_batch(model, concurrency, lengths, largest_batch)
    at = phases(model, batch, lengths, client)
    service_s = prompt_service_s(model, at)
    others = decoding_others(model, at, concurrency, batch, lengths, client)
    again = 1 + computed_again(model, concurrency, lengths, largest_batch)
    in_step = synchrony(model, client)
    per_token_s = among_others_s(model.candidates, at, others, lengths, service_s * again, in_step)
    carried = carried_requests_per_s(model, at, batch, lengths)
    later_s = np.maximum(lengths.output_tokens - 1, 0.0) * per_token_s
    first_s = np.maximum(loaded_ttft_s(model, at, batch, carried, lengths, client), batch / carried - later_s)
    first_s = first_s + (concurrency - batch) / carried
    return Serving(batch, per_token_s, first_s, concurrency / (first_s + later_s))


def loop_batch(model: StepModel, concurrency: FloatArray, lengths: Lengths, largest_batch: Floats) -> FloatArray:
    """Sequences in the slots of a closed loop: its clients, as far as slots and the tokens of a step reach."""
    slots = np.maximum(largest_batch, 1.0)
    return np.minimum(np.minimum(concurrency, slots), most_beside_prompts(model, lengths))


def computed_again(model: StepModel, concurrency: FloatArray, lengths: Lengths, largest_batch: Floats) -> FloatArray:
    """Tokens that a crowded KV pool makes an engine prefill again, for each of a prompt   [1].

    crowding x short x output / input; 0 where answers are set aside whole
    What an ended answer leaves in the pool is given to prompts that wait, at once. The `output` tokens by which
    sequences grow until another ends find room only where the newest are preempted, as far as too few answers end in
    the same step (`growth_short_of_room`); those are computed again. Clients beyond what the engine lets decode do not
    crowd the pool.
    """
    rules, slots = model.once(step_rules), np.maximum(largest_batch, 1.0)
    share = crowding(np.minimum(concurrency, rules.most_sequences), slots)
    if not share.any():
        return share
    ended_per_step = slots / model.candidates.num_groups / output_steps(model.candidates, lengths)
    short = growth_short_of_room(ended_per_step, 1.0 + lengths.input_tokens / lengths.output_tokens)
    return np.where(rules.sets_aside, 0.0, share * short * lengths.output_tokens / lengths.input_tokens)


def most_beside_prompts(model: StepModel, lengths: Lengths) -> FloatArray:
    """Sequences that decode, at most, where prompts take their share of the tokens of the same steps.

    groups room output / (input + output), at least one; no end where prompts have steps of their own   [sequences]
    A prompt that is not cut leaves room - input of a step, however seldom it comes.
    """
    c, rules = model.candidates, model.once(step_rules)
    room = rules.room_for(lengths.input_tokens, lengths.output_tokens)
    steps = output_steps(c, lengths)
    beside = decoding_beside_prompts(room, lengths.input_tokens, steps, c.verified_tokens) * c.num_groups
    whole = (room - lengths.input_tokens) / c.verified_tokens * c.num_groups
    beside = np.where(rules.awaits_room, np.minimum(beside, whole), beside)
    return np.where(rules.own_steps > 0, np.maximum(beside, 1.0), np.inf)


def decoding_others(
    model: StepModel, at: Phases, concurrency: FloatArray, batch: FloatArray, lengths: Lengths, client: Client
) -> FloatArray:
    """Others that decode in a step of a group's, on average over the steps in which a client of a closed loop decodes.

    (1 - 1 / C) min(B output / (output + a), C output / (output + a + w)) / groups   [sequences]
    Of the steps of its cycle, a client decodes in `output`. In a more its prompt is prefilled: 1 where steps mix, 0
    where prompts have steps of their own. In w more it is away (`steps_away`), and one who waits for a slot of the
    B takes its place.
    """
    output, own = output_steps(model.candidates, lengths), model.once(step_rules).own_steps
    away = steps_away(model, at, batch, lengths) + held_back_steps(model, at, batch, lengths, client)
    decoding = np.minimum(batch / (output + own), concurrency / (output + own + away)) * output
    return np.asarray((1 - 1 / np.maximum(concurrency, 1.0)) * decoding / model.candidates.num_groups)


def steps_away(model: StepModel, at: Phases, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """Steps whose prompts a client does not meet while it decodes: its own is on its way, or prefilled with them.

    `steps_until_back` + `steps_met_at_once` of h = handling + late steps (1 - 1 / B) t_decode   [steps]
    """
    others, rules = neighbours(model, batch), model.once(step_rules)
    until_s = request_host_s(model, lengths) + rules.late_steps * others / (others + 1) * at.decode_step_s
    course = (until_s, at.decode_step_s, at.prompts.together * prompt_service_s(model, at), at.prompts.per_step)
    return steps_until_back(*course) + steps_met_at_once(*course)


def loaded_ttft_s(
    model: StepModel, at: Phases, batch: FloatArray, rate: FloatArray, lengths: Lengths, client: Client
) -> FloatArray:
    """Mean time until the engine has the first token, in a closed loop.

    lone request + running steps + (1 - s) wait for prompts + s (B - 1) / 2 prompts + (1 - 1 / B) a prompt
    + m (p - 1) prompts   [s]
    Running steps: `idle_ttft_s`; wait: `loop_wait_s`. Clients in step (s) send together: prompt i waits for i - 1.
    An engine that looks for requests every p steps prefills the m p that came since at once, as their tokens end.
    Requests that are all alike end in the steps in which their neighbours are prefilled, and meet the next prompt: the
    last term, which lengths that differ do away with.
    """
    groups, in_step = model.candidates.num_groups, synchrony(model, client)
    service_s = np.maximum(prompt_service_s(model, at), SHORTEST_SERVICE_S)
    others = np.maximum(batch / groups - 1, 0.0)
    wait_s = loop_wait_s(others, batch / rate, service_s)
    met_s = np.where(client.is_alike, service_s * others / (others + 1), 0.0)
    polled_s = at.prompts.per_step * (np.maximum(np.asarray(client.poll_interval_steps), 1.0) - 1) * service_s
    queued_s = (1 - in_step) * wait_s + in_step * others / 2 * service_s + met_s + polled_s
    idle_s = idle_ttft_s(model, at, lone_ttft_s(model, lengths), others)
    held_s = held_back_steps(model, at, batch, lengths, client) * at.decode_step_s
    return np.asarray(idle_s + held_s + queued_s, dtype=np.float64)


def idle_ttft_s(model: StepModel, at: Phases, lone_s: FloatArray, others: Floats) -> FloatArray:
    """TTFT of a request that meets no other prompt in a group where `others` sequences decode on average.

    lone request + n others / (others + 1) t_decode   [s]
    n: steps between arrival, prefill and answer; a request that finds nothing running waits for none.
    """
    running = np.asarray(others) / (np.asarray(others) + 1.0)
    return np.asarray(lone_s + model.candidates.engine_constant("first_token_steps") * running * at.decode_step_s)


def held_back_steps(model: StepModel, at: Phases, batch: FloatArray, lengths: Lengths, client: Client) -> FloatArray:
    """Steps that an engine lets a prompt wait by the way it was started.

    n = w (polling interval - 1) + min(groups x output steps / B, gather_steps where there are groups) + h   [1]
    SGLang may look for requests every so many steps. TensorRT-LLM may balance attention-DP: a prompt waits until every
    group has one, which takes `groups` arrivals at B / output steps a step, or until its patience ends. h: what a
    prompt waits for others of its group, on average.
    """
    c = model.candidates
    polled = c.engine_constant("poll_wait_ratio") * np.maximum(np.asarray(client.poll_interval_steps) - 1, 0.0)
    until_all_have_one = c.attention_dp * output_steps(c, lengths) / np.maximum(batch, 1.0)
    gathered = np.where(c.attention_dp > 1, np.minimum(until_all_have_one, client.gather_steps), 0.0)
    return np.asarray(polled + gathered + at.prompts.waited, dtype=np.float64)


def prompt_service_s(model: StepModel, at: Phases) -> FloatArray:
    """Time that a busy engine gives to one prompt, in queue and capacity alike   [s].

    (a^4 + b^4)^(1/4), a = (k + (phi - k) / n) t_prompt, b = `launch_extra_s`: which takes longer differs among steps
    Of the n prompts that share a step the first costs phi of what it adds, the others what their kernels take,
    k t_prompt; k_p t_prompt where the device waits for the host, as on an idle engine. n = min(m / (1 - exp(-m)),
    1 + room / input_tokens), m prompts that come in a step on average: see `shared_steps`. A chunk of a prompt counts
    as one.
    """
    names = ("prefill_mixing", "decode_scale", "prefill_scale")
    first, further, apart = (model.candidates.engine_constant(f"{n}_ratio") for n in names)
    shared = further + (first - further) / at.prompts.sharing
    device_s = np.where(model.once(step_rules).waits_for_host, apart, shared) * at.prompt_extra_s
    return np.asarray((device_s**SHARPNESS + at.launch_extra_s**SHARPNESS) ** (1 / SHARPNESS))


def of_length(service_s: FloatArray, launch_s: FloatArray, ratio: Floats) -> FloatArray:
    """Service of a prompt whose kernels take `ratio` of the mean one's; launches take as long for any   [s].

    >>> float(of_length(np.array(2.0), np.array(0.0), 3.0))
    6.0
    """
    device = service_s**SHARPNESS - launch_s**SHARPNESS
    return np.asarray((np.maximum(device, 0.0) * ratio**SHARPNESS + launch_s**SHARPNESS) ** (1 / SHARPNESS))


def by_length(service_s: FloatArray, launch_s: FloatArray) -> FloatArray:
    """By how much a service grows with its kernels: dln(service) / dln(kernels) = (a / service)^4   [1]."""
    return np.asarray(np.maximum(1 - (launch_s / np.maximum(service_s, SHORTEST_SERVICE_S)) ** SHARPNESS, 0.0))


def static_batch(model: StepModel, batch: FloatArray, lengths: Lengths) -> Serving:
    """A fixed batch that is prefilled together and decoded to the end.

    latency = t_prefill(B prompts) + (output_tokens - 1) t_decode(B) / accepted   [s]
    """
    step_s = decode_step_s(model, batch, lengths) / model.candidates.tokens_per_step
    first_s = lone_ttft_s(model, lengths, batch)
    latency_s = first_s + (lengths.output_tokens - 1) * step_s
    return Serving(batch, step_s, first_s, batch / latency_s)


def full_queue(model: StepModel, batch: FloatArray, lengths: Lengths, requests: Floats = np.inf) -> Serving:
    """Throughput of an offline queue of `requests` (all at once; infinite: never empty); TTFT is of the engine alone.

    rate = R / (R t_service + output steps (n t_decode(B) + t_decode(r)))   [1/s], n = floor(R / B), r = R - n B
    Requests of one length that start together end together: n waves fill all B slots, the last wave has r sequences.
    """
    batch = np.minimum(np.minimum(batch, requests), most_beside_prompts(model, lengths))
    at = phases(model, batch, lengths)
    per_token_s = tpot_s(model, at, batch, lengths)
    rate = carried_requests_per_s(model, at, batch, lengths)
    rate = rate * last_wave_ratio(model, at, batch, rate, lengths, requests)
    return Serving(batch, per_token_s, lone_ttft_s(model, lengths), rate)


def last_wave_ratio(
    model: StepModel, at: Phases, batch: FloatArray, rate: FloatArray, lengths: Lengths, requests: Floats
) -> FloatArray:
    """Throughput of a queue that ends over that of one that does not: the last wave of requests leaves slots empty.

    ratio = T / (T + output steps (t_decode(r) - r / B t_decode(B))), T = R / rate of the endless queue   [1]
    """
    if not np.any(np.isfinite(requests)):
        return np.ones_like(rate)
    queued = np.where(np.isfinite(requests), requests, batch)
    rest = queued - np.floor(queued / batch) * batch
    last_s = decode_step_s(model, np.maximum(rest, 1.0), lengths)
    idle_s = np.where(rest > 0, last_s - rest / batch * at.decode_step_s, 0.0)
    endless_s = queued / rate
    steps = output_steps(model.candidates, lengths)
    return np.asarray(endless_s / (endless_s + steps * np.maximum(idle_s, 0.0)))
