"""Seconds of one pass through a tower of layers, and of the steps of a decoder that attends to it, on one GPU.

Arrays run over batches. Every operator takes its time from the measured kernel curves of its device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpufleet.architecture.encoder_flops import seen_pairs
from gpufleet.architecture.encoder_parameters import convolution_params
from gpufleet.domain.arrays import FloatArray, Floats, IntArray
from gpufleet.domain.calibration import AttentionCurves, Calibration, Curves, GemmCurves
from gpufleet.domain.encoder import LayerStack, Takes, Tower
from gpufleet.domain.precision import WeightFormat
from gpufleet.domain.runtime import Runtime
from gpufleet.performance.attention import (
    decode_bytes,
    decode_coordinates,
    decode_flop,
    decode_roofline_s,
    prefill_bytes,
    prefill_coordinates,
    prefill_flop,
    prefill_roofline_s,
)
from gpufleet.performance.elementwise import FIXED_S, elementwise_s
from gpufleet.performance.gemm import gemm_bytes, gemm_coordinates, gemm_flop, gemm_roofline_s, gemm_s
from gpufleet.performance.interpolation import curve_s, narrowed, rising
from gpufleet.performance.operations import Operation

HEAD_SHAPE = ("log2 heads / kv heads", "log2 head_dim")
KEYS = "log2 mean keys"
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
            bandwidth_bytes_per_s=calibration.bandwidth_bytes_per_s[place],
            state_bytes=weights.base.bytes_per_element,
        )

    @property
    def all_curves(self) -> tuple[Curves, ...]:
        """Curves of everything that a pass of any tower runs."""
        return (self.attention_gemm, self.mlp_gemm, self.base_gemm, self.attention.prefill)


@dataclass
class PassOperations:
    """Operators of a pass in the order that an input meets them; `tokens` of each input, `inputs` together."""

    curves: PassCurves
    runtime: Runtime
    found: list[Operation] = field(default_factory=list)
    num_kernels: float = 0.0

    def add_product(self, name: str, curves: GemmCurves, m: Floats, n: Floats, k: Floats, count: int) -> None:
        """A product of m rows with an [n, k] matrix, `count` times."""
        found = rising_product(curves, n, k)
        work = gemm_flop(m, n, k), gemm_bytes(m, n, k, curves.bytes_per_element, curves.activation_bytes_per_element)
        seconds = as_in_larger(lambda rows: gemm_s(found, rows, n, k), m)
        self._add(name, "gemm", count, {"m": m, "n": n, "k": k}, seconds, work, curves)
        self.num_kernels += count

    def add_stream(self, name: str, moved_elements: Floats, num_kernels: int, count: int) -> None:
        """Element-wise kernels that together read and write so many elements, in each of `count` layers."""
        if num_kernels == 0:
            return
        each = np.asarray(moved_elements * self.curves.state_bytes / num_kernels, dtype=np.float64)
        seconds = elementwise_s(self.curves.bandwidth_bytes_per_s, each)
        self._add(name, "elementwise", count * num_kernels, {"bytes": each}, seconds, (0.0, each), None)
        self.num_kernels += count * num_kernels

    def add_attention(self, stack: LayerStack, inputs: Floats, tokens: float) -> None:
        """Attention among the tokens of each input; where it is not one kernel, its scores pass through memory."""
        heads, size, curves = stack.num_heads, stack.head_dim, self.curves.attention.prefill
        pairs = float(seen_pairs(stack, tokens))
        found = rising_attention(curves, size, pairs / tokens)

        def seconds_of(batch: FloatArray) -> FloatArray:
            roofline = prefill_roofline_s(found, batch, tokens, tokens, pairs, heads, heads, size)
            return curve_s(found, roofline, prefill_coordinates(batch, tokens, pairs, heads, heads, size))

        seconds = as_in_larger(seconds_of, inputs)
        moved = prefill_bytes(inputs, tokens, tokens, heads, heads, size, curves.bytes_per_element)
        shape = {"inputs": inputs, "tokens": tokens, "heads": heads, "head size": size}
        work = prefill_flop(inputs, pairs, heads, size), moved
        self._add(ATTENTION, "attention", stack.num_layers, shape, seconds, work, curves)
        self.num_kernels += stack.num_layers
        if not self.runtime.fuses_attention(size, self.curves.state_bytes):
            scores = self.runtime.passes.scores * inputs * heads * tokens * tokens
            self.add_stream(SCORES, scores, self.runtime.passes.score_kernels, stack.num_layers)

    def add_decode(self, name: str, stack: LayerStack, rows: Floats, context_tokens: float) -> None:
        """Attention of one new token of each row over a context that is kept."""
        heads, size, curves = stack.num_heads, stack.head_dim, self.curves.attention.decode
        found = rising_decode(curves, heads, size)

        def seconds_of(batch: FloatArray) -> FloatArray:
            roofline = decode_roofline_s(found, batch, heads, heads, size, context_tokens)
            return curve_s(found, roofline, decode_coordinates(batch, heads, heads, size, context_tokens))

        seconds = as_in_larger(seconds_of, rows)
        moved = decode_bytes(rows, heads, heads, size, context_tokens, curves.bytes_per_element)
        shape = {"sequences": rows, "heads": heads, "head size": size, "context": context_tokens}
        work = decode_flop(rows, heads, size, context_tokens), moved
        self._add(name, "attention", stack.num_layers, shape, seconds, work, curves)
        self.num_kernels += stack.num_layers

    def add_layers(self, stack: LayerStack, rows: Floats) -> None:
        """Projections, feed-forward part and element-wise kernels of every layer on so many rows."""
        hidden, layers, passes = stack.hidden_size, stack.num_layers, self.runtime.passes
        c, name = self.curves, "attention projections"
        self.add_product(name, c.attention_gemm, rows, 3 * stack.attention_width, hidden, layers)
        self.add_product(name, c.attention_gemm, rows, hidden, stack.attention_width, layers)
        ups = 2 if stack.gated else 1
        self.add_product("mlp", c.mlp_gemm, rows, ups * stack.mlp_width, hidden, layers)
        self.add_product("mlp", c.mlp_gemm, rows, hidden, stack.mlp_width, layers)
        moved = rows * (passes.hidden * hidden + passes.mlp * (1 + ups) / 2 * stack.mlp_width)
        self.add_stream(NORMS, moved, passes.kernels, layers)
        self.num_kernels += layers * self.runtime.product_kernels

    def _add(
        self,
        name: str,
        kernel: str,
        count: int,
        shape: dict[str, Floats],
        seconds: FloatArray,
        work: tuple[Floats, Floats],
        curves: Curves | None,
    ) -> None:
        flop, moved = (np.asarray(figure, dtype=np.float64) for figure in work)
        bandwidth = self.curves.bandwidth_bytes_per_s
        self.found.append(
            Operation(
                name=name,
                kernel=kernel,
                count=count,
                shape=tuple((label, np.asarray(size, dtype=np.float64)) for label, size in shape.items()),
                seconds=seconds,
                flop=flop,
                moved_bytes=moved,
                compute_s=flop * 0.0 if curves is None else flop / curves.peak_flop_per_s,
                memory_s=moved / bandwidth,
                link_s=flop * 0.0,
                fixed_s=FIXED_S if curves is None else curves.grids.fixed_s,
                curves=curves,
            )
        )


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
    _add_convolutions(pass_, tower, inputs, positions)
    if tower.takes is Takes.TEXT:
        pass_.add_stream("embedding", 4 * inputs * tokens * tower.stack.hidden_size, 2, 1)
    pass_.add_layers(tower.stack, inputs * tokens)
    pass_.add_attention(tower.stack, inputs, tokens)
    for head in tower.projections:
        rows = inputs if head.once else inputs * tokens
        pass_.add_product("output projection", curves.base_gemm, rows, head.outputs, head.inputs, 1)
    return timed(pass_.found, pass_.num_kernels, runtime)


def _add_convolutions(pass_: PassOperations, tower: Tower, inputs: FloatArray, positions: float) -> None:
    """Convolutions as products: a row for each position that comes out, unfolded kernels as its inner size."""
    for convolution in tower.convolutions:
        positions = convolution.positions_after(positions)
        outputs = convolution.out_channels // convolution.groups
        inner = convolution_params(convolution) // convolution.out_channels
        rows, gemm = inputs * positions, pass_.curves.base_gemm
        pass_.add_product("convolutions", gemm, rows, outputs, inner, convolution.groups)
        pass_.add_stream("convolutions", 4 * rows * convolution.out_channels, 1, 1)


def decoder_steps(
    decoder: Tower, curves: PassCurves, runtime: Runtime, inputs: FloatArray, encoder_tokens: float, answer: Answer
) -> PassTimes:
    """All steps that write an answer for each of `inputs`, attending to `encoder_tokens` of each.

    Keys and values of the encoder are made once; then every token takes a step at the mean length of the answer.
    """
    stack, rows = decoder.stack, inputs * answer.beams
    once = PassOperations(curves, runtime)
    width = 2 * stack.attention_width
    once.add_product(CROSS, curves.attention_gemm, inputs * encoder_tokens, width, stack.hidden_size, stack.num_layers)
    step = PassOperations(curves, runtime)
    step.add_layers(stack, rows)
    step.add_decode(OVER_CACHE, stack, rows, max(answer.output_tokens / 2, 1.0))
    for n, k in ((stack.attention_width, stack.hidden_size), (stack.hidden_size, stack.attention_width)):
        step.add_product(CROSS, curves.attention_gemm, rows, n, k, stack.num_layers)
    step.add_decode(CROSS, stack, rows, encoder_tokens)
    for head in decoder.projections:
        step.add_product("output head", curves.base_gemm, rows, head.outputs, head.inputs, 1)
    steps = [_repeated(operation, answer.output_tokens) for operation in step.found]
    kernels = once.num_kernels + answer.output_tokens * step.num_kernels
    return timed([*once.found, *steps], kernels, runtime)


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


def rising_product(curves: GemmCurves, n: Floats, k: Floats) -> GemmCurves:
    """Curves of a product at its n and k whose seconds never fall over m."""
    width, inner = np.array([float(n)]), np.array([float(k)])
    found = narrowed(curves, gemm_coordinates(1.0, width, inner), ("log2 n", "log2 k"))
    return rising(found, lambda at: gemm_roofline_s(found, at[0], width, inner))


def rising_attention(curves: Curves, head_dim: int, keys: float) -> Curves:
    """Curves of attention at a head size and so many keys per query, whose seconds never fall over query rows."""
    size, seen = np.array([float(head_dim)]), np.array([keys])
    place = prefill_coordinates(1.0, 1.0, seen, np.ones(1), np.ones(1), size)
    found = narrowed(curves, place, (*HEAD_SHAPE, KEYS))
    return rising(found, lambda at: prefill_roofline_s(found, 1.0, at[0], at[0], at[0] * seen, 1.0, 1.0, size))


def rising_decode(curves: Curves, heads: int, head_dim: int) -> Curves:
    """Curves of attention over a kept context whose seconds never fall over sequences and context."""
    number, size = np.array([float(heads)]), np.array([float(head_dim)])
    found = narrowed(curves, decode_coordinates(1.0, number, number, size, 1.0), HEAD_SHAPE)
    return rising(found, lambda at: decode_roofline_s(found, at[0] / number, number, number, size, at[1]))


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
