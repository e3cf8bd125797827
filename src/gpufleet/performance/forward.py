"""Seconds of one pass through a tower of layers, and of the steps of a decoder that attends to it, on one GPU.

Arrays run over batches. Every operator takes its time from the measured kernel curves of its device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpufleet.architecture.encoder_flops import seen_pairs
from gpufleet.architecture.encoder_parameters import convolution_params
from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import AttentionCurves, Calibration, Curves, GemmCurves, StreamFormula
from gpufleet.domain.encoder import LayerStack, Takes, Tower
from gpufleet.domain.precision import WeightFormat
from gpufleet.domain.runtime import Runtime
from gpufleet.performance.attention_groups import DecodeAttention, Heads, InputAttention
from gpufleet.performance.kernel_groups import Part, StepGroup, StepTokens, as_met
from gpufleet.performance.operations import Operation
from gpufleet.performance.operator_groups import OperatorGroups

SCORES, NORMS = "attention scores in memory", "norms, biases and residuals"
ATTENTION, CROSS, OVER_CACHE = "attention", "attention to the encoder", "attention over the answer"
MULTIPLES = 2.0 ** (np.arange(13) / 2)


@dataclass(frozen=True, eq=False)
class PassCurves:
    """Kernel curves of one device in one weight format, and the format of what flows between kernels."""

    attention_gemm: GemmCurves
    mlp_gemm: GemmCurves
    base_gemm: GemmCurves
    attention: AttentionCurves
    streams: StreamFormula
    bandwidth_bytes_per_s: FloatArray
    state_bytes: float

    @classmethod
    def gather(cls, calibration: Calibration, accelerator: int, weights: WeightFormat) -> PassCurves:
        """The curves of `calibration.accelerators[accelerator]`; activations keep the bytes of the base format."""
        place, first = np.array([accelerator]), np.zeros(1, dtype=np.int64)

        def gemm(precision: str) -> GemmCurves:
            return calibration.gemm(place, [precision], first)

        return cls(
            attention_gemm=gemm(weights.attention.name),
            mlp_gemm=gemm(weights.mlp.name),
            base_gemm=gemm(weights.base.name),
            attention=calibration.attention(place, [weights.base.name], first),
            streams=calibration.formulas.streams,
            bandwidth_bytes_per_s=calibration.bandwidth_bytes_per_s[place],
            state_bytes=weights.base.bytes_per_element,
        )

    @property
    def all_curves(self) -> tuple[Curves, ...]:
        """Curves of everything that a pass of any tower runs."""
        return (self.attention_gemm, self.mlp_gemm, self.base_gemm, self.attention.prefill)


class PassOperations(OperatorGroups):
    """Operators of a pass in the order that an input meets them; what is counted first are the inputs themselves."""

    def __init__(self, curves: PassCurves, runtime: Runtime) -> None:
        super().__init__(1, curves.bandwidth_bytes_per_s, curves.streams, curves.state_bytes)
        self.curves, self.runtime = curves, runtime
        self.rows_per_input = [1.0]
        self.tokens = 1.0
        self.context_tokens: list[list[float]] = []
        self.num_kernels = 0

    def part(self, name: str, kernel: str, count: int) -> Part:
        """The next operator, whose kernels the host launches."""
        self.num_kernels += count
        return super().part(name, kernel, count)

    def seen(self, rows_per_input: float) -> int:
        """The row that counts so many for each input."""
        if rows_per_input not in self.rows_per_input:
            self.rows_per_input.append(rows_per_input)
        return self.rows_per_input.index(rows_per_input)

    def add_streams(self, name: str, elements: float, num_kernels: int, count: int) -> None:
        """Element-wise kernels that together read and write so many elements, in each of `count` layers."""
        if num_kernels:
            self.add_stream(name, elements / num_kernels, count * num_kernels)

    def add_attention(self, stack: LayerStack, tokens: float) -> None:
        """Attention among the tokens of each input; where it is not one kernel, its scores pass through memory."""
        self.tokens, part = tokens, self.part(ATTENTION, "attention", stack.num_layers)
        keys = float(seen_pairs(stack, tokens)) / tokens
        self.others.append(InputAttention((part,), self.curves.attention, _heads_of(stack), keys))
        if not self.runtime.fuses_attention(stack.head_dim, self.curves.state_bytes):
            passes = self.runtime.passes
            scores = passes.scores * stack.num_heads * tokens * tokens
            self.add_streams(SCORES, scores, passes.score_kernels, stack.num_layers)

    def add_decodes(self, stack: LayerStack, context_tokens: Mapping[Part, float]) -> None:
        """Attention of one new token of each row over contexts that are kept."""
        self.context_tokens = [[tokens] for tokens in context_tokens.values()]
        parts = tuple(context_tokens)
        self.others.append(DecodeAttention(parts, self.curves.attention, _heads_of(stack), np.full((1, 1), np.inf)))

    def add_layers(self, stack: LayerStack, tokens: float) -> None:
        """Projections, feed-forward part and element-wise kernels of every layer on so many tokens of each input."""
        hidden, layers, passes = stack.hidden_size, stack.num_layers, self.runtime.passes
        c, name, seen = self.curves, "attention projections", self.seen(tokens)
        self.add_product(name, c.attention_gemm, 3 * stack.attention_width, hidden, layers, seen)
        self.add_product(name, c.attention_gemm, hidden, stack.attention_width, layers, seen)
        ups = 2 if stack.gated else 1
        self.add_product("mlp", c.mlp_gemm, ups * stack.mlp_width, hidden, layers, seen)
        self.add_product("mlp", c.mlp_gemm, hidden, stack.mlp_width, layers, seen)
        moved = tokens * (passes.hidden * hidden + passes.mlp * (1 + ups) / 2 * stack.mlp_width)
        self.add_streams(NORMS, moved, passes.kernels, layers)
        self.num_kernels += layers * self.runtime.product_kernels

    def operations(self, inputs: FloatArray) -> list[Operation]:
        """Every operator with its seconds where so many inputs pass together."""
        batches = inputs[None, :]
        at = self._counted(batches)
        return as_met((group, group.operations(at, self._seconds(group, batches))) for group in self.groups())

    def _seconds(self, group: StepGroup, inputs: FloatArray) -> FloatArray:
        return as_in_larger(lambda each: group.seconds(self._counted(each)), inputs)

    def _counted(self, inputs: FloatArray) -> StepTokens:
        always = np.ones(1, dtype=np.bool_)
        return StepTokens(
            decoding=inputs,
            queries=inputs,
            caches=inputs,
            decode_context_tokens=np.array(self.context_tokens),
            prefilling=inputs,
            prompt_tokens=np.array(self.tokens),
            counted=inputs * np.array(self.rows_per_input)[:, None],
            in_flight=np.ones(1),
            is_decoding=always,
            is_prefilling=always,
            has_prefill=True,
        )


def _heads_of(stack: LayerStack) -> Heads:
    """The heads of a stack, which share nothing and see every token."""
    heads = np.array([[float(stack.num_heads)]])
    return Heads(heads, heads, np.array([[float(stack.head_dim)]]), np.full((1, 1), np.inf))


@dataclass(frozen=True)
class Answer:
    """What a decoder writes for each input: tokens, and hypotheses that it keeps (beam search)."""

    output_tokens: float
    beams: int = 1


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a pass over a batch: of its kernels, of the host that launches them, and that reads audio before."""

    operations: Sequence[Operation]
    kernels_s: FloatArray
    host_s: FloatArray
    reading_s: Floats = 0.0

    @property
    def seconds(self) -> FloatArray:
        """The longer of both, as the host runs ahead of the device or the device waits for it; and reading before."""
        return np.asarray(np.maximum(self.kernels_s, self.host_s) + self.reading_s, dtype=np.float64)


def tower_pass(
    tower: Tower, curves: PassCurves, runtime: Runtime, inputs: FloatArray, tokens: float, positions: float
) -> PassTimes:
    """One pass of `inputs` through a tower; `positions` of each enter its convolutions, its layers see `tokens`.

    t = max(sum of kernels, kernels x launch)   [s]
    """
    pass_ = PassOperations(curves, runtime)
    _add_convolutions(pass_, tower, positions)
    if tower.takes is Takes.TEXT:
        pass_.add_streams("embedding", 4 * tokens * tower.stack.hidden_size, 2, 1)
    pass_.add_layers(tower.stack, tokens)
    pass_.add_attention(tower.stack, tokens)
    for head in tower.projections:
        seen = pass_.seen(1.0 if head.once else tokens)
        pass_.add_product("output projection", curves.base_gemm, head.outputs, head.inputs, 1, seen)
    return timed(pass_.operations(inputs), pass_.num_kernels, runtime)


def _add_convolutions(pass_: PassOperations, tower: Tower, positions: float) -> None:
    """Convolutions as products: a row for each position that comes out, unfolded kernels as its inner size."""
    for convolution in tower.convolutions:
        positions = convolution.positions_after(positions)
        outputs = convolution.out_channels // convolution.groups
        inner = convolution_params(convolution) // convolution.out_channels
        gemm, seen = pass_.curves.base_gemm, pass_.seen(positions)
        pass_.add_product("convolutions", gemm, outputs, inner, convolution.groups, seen)
        pass_.add_streams("convolutions", 4 * positions * convolution.out_channels, 1, 1)


def decoder_steps(
    decoder: Tower, curves: PassCurves, runtime: Runtime, inputs: FloatArray, encoder_tokens: float, answer: Answer
) -> PassTimes:
    """All steps that write an answer for each of `inputs`, attending to `encoder_tokens` of each.

    Keys and values of the encoder are made once; then every token takes a step at the mean length of the answer.
    """
    stack, gemm = decoder.stack, curves.attention_gemm
    once, step = PassOperations(curves, runtime), PassOperations(curves, runtime)
    width, seen = 2 * stack.attention_width, once.seen(encoder_tokens)
    once.add_product(CROSS, gemm, width, stack.hidden_size, stack.num_layers, seen)
    step.add_layers(stack, 1.0)
    own = step.part(OVER_CACHE, "attention", stack.num_layers)
    for n, k in ((stack.attention_width, stack.hidden_size), (stack.hidden_size, stack.attention_width)):
        step.add_product(CROSS, gemm, n, k, stack.num_layers)
    cross = step.part(CROSS, "attention", stack.num_layers)
    step.add_decodes(stack, {own: max(answer.output_tokens / 2, 1.0), cross: encoder_tokens})
    for head in decoder.projections:
        step.add_product("output head", curves.base_gemm, head.outputs, head.inputs, 1)
    steps = [_repeated(operation, answer.output_tokens) for operation in step.operations(inputs * answer.beams)]
    kernels = once.num_kernels + answer.output_tokens * step.num_kernels
    return timed([*once.operations(inputs), *steps], kernels, runtime)


def _repeated(operation: Operation, times: float) -> Operation:
    """An operation of one step as that of all steps."""
    return replace(operation, count=round(operation.count * times))


def timed(operations: Sequence[Operation], num_kernels: float, runtime: Runtime) -> PassTimes:
    """Seconds of the operations together, and of launching so many kernels."""
    kernels_s = np.asarray(sum(operation.total_s for operation in operations), dtype=np.float64)
    return PassTimes(operations, kernels_s, np.full_like(kernels_s, num_kernels * runtime.launch_s.value))


def together(passes: Iterable[PassTimes]) -> PassTimes:
    """One pass after the other."""
    listed = list(passes)
    return PassTimes(
        [operation for each in listed for operation in each.operations],
        np.asarray(sum(each.seconds for each in listed)),
        np.asarray(sum(each.host_s for each in listed)),
    )


def as_in_larger(seconds_of: Callable[[FloatArray], FloatArray], amount: Floats) -> FloatArray:
    """Seconds of a kernel on so much, or its share of the seconds on more, whichever is longer.

    max over r of t(r amount) / r, r = 1, sqrt 2, 2, ... 64   [s]   Curves that were measured on a device with another
    ratio of arithmetic to bandwidth have a hump where its ridge was: a larger batch would lower the throughput. What
    holds for every batch is what the larger ones show. Rises where t does.

    >>> float(as_in_larger(lambda m: np.where(m > 8, 3.0, 1.0), np.array([8.0]))[0]) > 2.0
    True
    """
    whole = np.atleast_1d(np.asarray(amount, dtype=np.float64))
    times = MULTIPLES.reshape(-1, *(1,) * whole.ndim)
    seconds: FloatArray = np.max(seconds_of(whole * times) / times, axis=0)
    return seconds


def worst_grade(curves: PassCurves) -> int:
    """The worst grade among the curves of a pass."""
    return int(max(int(each.grade[0]) for each in curves.all_curves))


def lent_log_ratios(curves: PassCurves) -> tuple[float, float]:
    """The widest ln ratios of curves that were lent; 0 where all were measured on the device."""
    lent: list[Curves] = [each for each in curves.all_curves if int(each.grade[0]) > 0]
    low = max((-float(np.log(each.low_ratio[0])) for each in lent), default=0.0)
    return low, max((float(np.log(each.high_ratio[0])) for each in lent), default=0.0)


def tried_batches(most: int) -> IntArray:
    """Powers of two up to `most`: the batches that are tried.

    >>> [int(i) for i in tried_batches(9)]
    [1, 2, 4, 8]
    """
    return np.asarray(2 ** np.arange(int(np.log2(max(most, 1))) + 1), dtype=np.int64)
