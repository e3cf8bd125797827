"""How far a prediction may be off: log-normal factors learnt from what the fit had not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture, LatentAttention
from gpufleet.domain.arrays import FloatArray, Floats, IntArray, Ints
from gpufleet.domain.beside import NOTHING_BESIDE
from gpufleet.domain.calibration import Curves
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.layout import Layout
from gpufleet.domain.mixers import CompressedAttention
from gpufleet.domain.precision import WeightFormat
from gpufleet.memory.weights import weights_read_bytes_per_device
from gpufleet.performance.host_link import OFFLOADED
from gpufleet.performance.mixer_groups import MixerGroup
from gpufleet.performance.recurrence import (
    borrows_full_attention,
    is_timed_by_formula,
)
from gpufleet.performance.serving import Lengths, decode_load, decode_step_s, host_times
from gpufleet.performance.shared_steps import step_rules
from gpufleet.performance.step import StepModel
from gpufleet.provenance import Grade
from gpufleet.records import dataclass

CROWD_SEQUENCES = 32.0
DRAFTED_STEP_LOG = 0.15
"""ln by which a step that verifies drafts is off, over one that does not: 80 % of published pairs whose accepted
length and draft are known (DeepSeek-V3, V3.2, Kimi-K2.6, MiniMax-M2.5; tests/published) lie within."""
ENDS = np.array([[-1.0], [1.0]])  # the 10th percentile lies below, the 90th above


@dataclass(frozen=True)
class Bounds:
    """Factors that turn an expected value into its 10th and 90th percentile, per candidate."""

    low_ratio: FloatArray
    high_ratio: FloatArray

    def stopping_at(self, expected: Floats, least: float) -> Bounds:
        """The same bounds, the low end of `expected` no lower than what physics allows (or than expected itself)."""
        stop = np.minimum(least / np.asarray(expected, dtype=np.float64), 1.0)
        return replace(self, low_ratio=np.maximum(self.low_ratio, stop))


def fastest_token_s(arch: Architecture, weights: WeightFormat, layout: Layout, bandwidth_bytes_per_s: float) -> float:
    """Seconds that no decode step beats: the weights that one token needs, read once at full bandwidth.

    pp x bytes / bandwidth   [s]   The low end of a range stops here.
    """
    read_bytes = weights_read_bytes_per_device(arch, weights, layout, 1.0 / layout.attention_dp)
    return layout.pp * read_bytes / bandwidth_bytes_per_s


def time_bounds(
    model: StepModel, batch: FloatArray, lengths: Lengths, step_s: FloatArray | None = None
) -> dict[str, Bounds]:
    """Bounds of `tpot` and `ttft` at `batch` sequences: left-out residuals, widened where less is known.

    `step_s`: the decode steps at that batch, where they are known already.

    ln factor = +- sqrt(engine^2 + kernels^2 + distance^2 + host^2 + beside^2), around the expected value   [1]
    engine: p10 and p90 of ln(measured / predicted) on models left out of the fit, for TPOT x exp(log_experts) where
    tokens are routed to experts, for TTFT x `regime_ratio`; kernels: the same of curves lent by another accelerator, 0
    where they were measured on this one, of which a step keeps the share `lent_kept` that was seen where a GPU was left
    out with its curves, since its kernels do not all err alike; distance: `MeasuredSpread.beyond_log`; host: what a
    host that works while the device waits may take of a step; beside: adapters that nobody timed, and weights that are
    read from host memory.
    """
    known = model.once(measured_spread)
    beyond = known.beyond_log(model, batch, lengths) ** 2
    if any(engine.beside != NOTHING_BESIDE for engine in model.candidates.palette.engines):
        beyond = beyond + _beside_squared(model, batch, lengths)
    own = known.tpot_squared, known.ttft_squared * _regime_ratio(model, batch) ** 2
    tpot, ttft = (squared + lent + beyond for squared, lent in zip(own, known.lent_squared, strict=True))
    return {
        "tpot": _bounds(tpot + _host_squared(model, batch, lengths, step_s)),
        "ttft": _bounds(ttft + _vision_squared(model)),
    }


def _host_squared(model: StepModel, batch: FloatArray, lengths: Lengths, step_s: FloatArray | None) -> FloatArray:
    """Squared ln factors of a decode step whose host takes the least or the most for sequences and for exchanges."""
    further_s, exchanges_s = model.once(further_range_s), model.once(exchange_range_s)
    if not has_waiting_host(model):
        return further_s
    step_s = decode_step_s(model, batch, lengths) if step_s is None else step_s
    sequences_s = further_s * np.maximum(batch - 1, 0.0)
    return np.asarray(np.log(1.0 + sequences_s / step_s) ** 2 + np.log1p(np.maximum(exchanges_s / step_s, -0.5)) ** 2)


def _beside_squared(model: StepModel, batch: FloatArray, lengths: Lengths) -> FloatArray:
    """Squared ln factors of what is kept beside a model [end, candidate].

    Adapters of unknown pace: up to `slowdown_ratio` later. Host memory: its link at the ends of its range, in a step of
    decoding, of which it takes most.
    """
    engines = model.candidates.palette.engines
    most = [e.adapters.slowdown_ratio if e.adapters and e.beside.has_unknown_pace else 1.0 for e in engines]
    slower = np.log(np.array(most)[model.candidates.engine])
    squared = np.stack([np.zeros(len(slower)), slower**2])
    read_s = model.terms(decode_load(batch, lengths)).get(OFFLOADED)
    if read_s is None:
        return squared
    ratio, step_s = model.hardware.calibration.formulas.host_read.link_ratio, decode_step_s(model, batch, lengths)
    ends = [ratio.value / (ratio.high or ratio.value) - 1, ratio.value / (ratio.low or ratio.value) - 1]
    return np.asarray(squared + np.log1p(np.multiply.outer(ends, read_s / step_s)) ** 2)


def has_waiting_host(model: StepModel) -> bool:
    """Whether a host that works while the device waits makes any step less certain."""
    return bool(model.once(further_range_s).any() or model.once(exchange_range_s).any())


def further_range_s(model: StepModel) -> FloatArray:
    """What a waiting host may take beside what is expected for every further sequence [end, candidate]   [s]."""
    ends_s = model.candidates.engine_range("host_sequence_s") * model.once(step_rules).host_ratio
    return np.asarray(ends_s - host_times(model).further_s * (ends_s.max(axis=0) > 0))


def exchange_range_s(model: StepModel) -> FloatArray:
    """What exchanges through host memory may take of a step beside what is expected [end, candidate]   [s].

    Two a layer, each with the start of the fastest and of the slowest of the machines that were measured.
    """
    start, c = model.hardware.calibration.formulas.host_exchange.fixed_s, model.candidates
    num_layers = sum(block.count for block in model.arch.blocks)
    exchanges = 2 * num_layers * (model.hardware.collectives.through_host & (c.tp > 1))
    ends_s = [(start.low or start.value) - start.value, (start.high or start.value) - start.value]
    return np.asarray(np.outer(ends_s, exchanges))


def _vision_squared(model: StepModel) -> FloatArray:
    """Squared ln factors of a tower that nobody measured, over the whole first token where prompts hold images."""
    ratio = model.hardware.calibration.formulas.vision.flop_ratio
    is_seen = model.arch.images is not None
    ends = (ratio.high or ratio.value, ratio.low or ratio.value)
    return np.array([[is_seen * np.log(ratio.value / end) ** 2] for end in ends])


def _bounds(squared_log: FloatArray) -> Bounds:
    low, high = np.exp(ENDS * np.sqrt(squared_log))
    return Bounds(low_ratio=low, high_ratio=high)


@dataclass(frozen=True)
class MeasuredSpread:
    """What is known of a model's engine and curves whatever the load: squared ln factors [end, candidate].

    `least` and `most` are of sequences of a group, input and output tokens; `devices_beyond` doublings of GPUs;
    `lent_squared` is that of TPOT, then that of TTFT.
    """

    tpot_squared: FloatArray
    ttft_squared: FloatArray
    lent_squared: tuple[FloatArray, FloatArray]
    least: FloatArray
    most: FloatArray
    devices_beyond: FloatArray
    log_per_doubling: FloatArray

    def beyond_log(self, model: StepModel, batch: FloatArray, lengths: Lengths) -> FloatArray:
        """ln by which a range grows beyond what was measured of the engine: `log_per_doubling` for each doubling   [1].

        Doublings over the most sequences of a group and GPUs of a replica, and outside the input and output lengths.
        """
        figures = np.empty(self.most.shape)
        figures[0], figures[1:] = (
            batch / model.candidates.attention_dp,
            [[lengths.input_tokens], [lengths.output_tokens]],
        )
        doublings = np.add.reduce(doublings_beyond(figures, self.least, self.most), axis=0)
        return np.asarray(self.log_per_doubling * (doublings + self.devices_beyond))


def measured_spread(model: StepModel) -> MeasuredSpread:
    """The constants of each candidate's engine, and the ranges of lent curves."""
    c = model.candidates
    known = c.engine_constant
    tpot, ttft = (np.stack([known(f"{name}_log_{end}") for end in ("low", "high")]) for name in ("tpot", "ttft"))
    routed = np.exp(known("tpot_log_experts") * model.arch.is_moe)
    drafted = drafted_log(c) ** 2 if c.drafts_any else 0.0
    lengths = ("input_tokens", "output_tokens")
    return MeasuredSpread(
        tpot_squared=(tpot * routed) ** 2 + drafted,
        ttft_squared=ttft**2,
        lent_squared=(lent_squared(model, known("tpot_lent_kept")), lent_squared(model, known("ttft_lent_kept"))),
        least=np.stack([np.ones(len(c)), *(known(f"least_{figure}") for figure in lengths)]),
        most=np.stack([known("most_sequences"), *(known(f"most_{figure}") for figure in lengths)]),
        devices_beyond=doublings_beyond(c.num_devices, 1.0, known("most_devices")),
        log_per_doubling=known("log_per_doubling"),
    )


def drafted_log(candidates: Candidates) -> FloatArray:
    """ln factors of a time per token by what drafts may yield and take, 0 where none is drafted [end, candidate].

    sqrt(ln(yield / its ends)^2 + DRAFTED_STEP_LOG^2)   Where a step yields most a token takes least.
    """
    yields, drafts = candidates.tokens_per_step, candidates.verified_tokens > 1
    low, high = np.where(drafts, candidates.engine_range("accepted_length"), yields)
    of_step = np.where(drafts, DRAFTED_STEP_LOG, 0.0)
    return np.asarray(np.hypot(np.stack([np.log(high / yields), np.log(yields / low)]), of_step))


def crowding(sequences: Floats) -> FloatArray:
    """Doublings by which waiting for others makes a first token less certain: log2(1 + sequences of a group / 32).

    >>> [round(float(crowding(n)), 2) for n in (1, 32, 224)]
    [0.04, 1.0, 3.0]
    """
    return np.asarray(np.log2(1.0 + np.asarray(sequences) / CROWD_SEQUENCES))


def regime_ratio(per_crowding: Floats, dp_log: Floats, sequences: Floats, attention_dp: Ints) -> FloatArray:
    """How many times wider the range of a first token is than that of a lone request without attention-DP.

    exp(per_crowding x crowding(sequences of a group) + dp_log where groups of attention-DP wait for each other)   [1]

    >>> round(float(regime_ratio(0.3, 0.5, 32.0, 8)), 2)
    2.23
    """
    groups_wait = np.asarray(attention_dp) > 1
    return np.asarray(np.exp(per_crowding * crowding(sequences) + np.where(groups_wait, dp_log, 0.0)))


def doublings_beyond(figure: Floats | IntArray, least: Floats, most: Floats) -> FloatArray:
    """Doublings by which a figure lies below or above what was measured, 0 between.

    >>> [float(doublings_beyond(n, 128.0, 8192.0)) for n in (32.0, 1000.0, 16384.0)]
    [2.0, 0.0, 1.0]
    """
    figure = np.maximum(figure, 1.0)
    return np.maximum(np.maximum(np.log2(figure / most), np.log2(least / figure)), 0.0)


def _regime_ratio(model: StepModel, batch: FloatArray) -> FloatArray:
    c = model.candidates
    per_crowding, dp_log = c.engine_constant("ttft_log_per_crowding"), c.engine_constant("ttft_log_attention_dp")
    return regime_ratio(per_crowding, dp_log, batch / c.attention_dp, c.attention_dp)


def lent_squared(model: StepModel, kept: FloatArray) -> FloatArray:
    """Squared ln factors of a step by the curves that another accelerator lends it [end, candidate]."""
    return np.stack(borrowed_log_ratios(model, kept)) ** 2


def borrowed_log_ratios(model: StepModel, kept: Floats = 1.0) -> tuple[FloatArray, FloatArray]:
    """The widest ln ratios of the curves that carry a step; 0 where all were measured on the device.

    Of a curve that another GPU lends a step keeps the share `kept`; of one that is a roofline all.

    Curves of rarer mixers count with their own misses even there, up to those of a formula: no serving run has tested
    them.
    """
    low, high = np.zeros(len(model.candidates)), np.zeros(len(model.candidates))
    for curves in weighty_curves(model):
        share = np.where(curves.grade == Grade.TRANSFERRED, kept, curves.grade > Grade.MEASURED)
        low = np.maximum(low, -share * np.log(curves.low_ratio))
        high = np.maximum(high, share * np.log(curves.high_ratio))
    formula_low, formula_high = model.hardware.calibration.formulas.state_space.log_range
    for curves in mixer_curves(model):
        own = curves.grade == Grade.MEASURED
        low = np.maximum(low, np.minimum(-np.log(curves.low_ratio), np.where(own, -formula_low, np.inf)))
        high = np.maximum(high, np.minimum(np.log(curves.high_ratio), np.where(own, formula_high, np.inf)))
    if model.arch.is_assumed or is_timed_by_formula(model.arch) or borrows_full_attention(model.arch):
        low, high = np.maximum(low, -formula_low), np.maximum(high, formula_high)
    return low, high


def grades(model: StepModel) -> IntArray:
    """The worst grade among the curves that carry a step, and the engine's own."""
    worst = np.array([Grade[engine.grade.upper().replace(" ", "_")] for engine in model.candidates.palette.engines])
    grade: IntArray = worst[model.candidates.engine].astype(np.int64)
    grade = np.where(model.candidates.verified_tokens > 1, np.maximum(grade, int(Grade.TRANSFERRED)), grade)
    for curves in (*weighty_curves(model), *mixer_curves(model)):
        grade = np.maximum(grade, curves.grade)
    beside = [e.beside.has_unknown_pace or e.beside.offloaded_bytes > 0 for e in model.candidates.palette.engines]
    if any(beside):
        grade = np.maximum(grade, np.where(np.array(beside)[model.candidates.engine], int(Grade.ROOFLINE), 0))
    if is_timed_by_formula(model.arch) or model.arch.images is not None:
        grade = np.maximum(grade, int(Grade.ROOFLINE))
    elif model.arch.is_assumed or borrows_full_attention(model.arch):
        grade = np.maximum(grade, int(Grade.TRANSFERRED))
    tp_grade = np.where(model.candidates.num_devices > 1, model.hardware.collectives.grade, 0)
    return np.maximum(grade, tp_grade)


def weighty_curves(model: StepModel) -> list[Curves]:
    """Curves of the operators that a step of this architecture spends its time in."""
    hw, arch = model.hardware, model.arch
    products: list[Curves] = [hw.attention_gemm, hw.experts if arch.is_moe else hw.mlp_gemm]
    return [*products, hw.latent_attention.decode if _is_latent(arch) else hw.attention.decode]


def mixer_curves(model: StepModel) -> list[Curves]:
    """Curves of gated delta nets, and of attention over chosen tokens with its index."""
    return [group.curves for group in model.groups if isinstance(group, MixerGroup)]


def _is_latent(arch: Architecture) -> bool:
    return any(isinstance(block.mixer, (LatentAttention, CompressedAttention)) for block in arch.blocks)
