"""An `EncoderEstimate` from a solved question: figures with ranges, what a pass takes operator by operator."""

from __future__ import annotations

from gpufleet.answers.figures import PRODUCT, spread_figure, stream_words
from gpufleet.domain.calibration import StreamFormula
from gpufleet.domain.encoder import Takes
from gpufleet.optimize.encoder import EncoderQuestion, EncoderSolution, flop_per_input
from gpufleet.performance.operator_groups import QUANTISATION
from gpufleet.pricing.unit_cost import usd_per_request
from gpufleet.results.base import ExplainedTerm, Figure, Input
from gpufleet.results.catalog import PriceRow
from gpufleet.results.encoders import EncoderEstimate
from gpufleet.units import HOUR, MEGA

FORMULAS = {
    "attention": "4 heads head_dim pairs / peak, over the measured prefill-attention curve",
    "attention over the answer": "bytes of keys and values / bandwidth, over the measured decode-attention curve",
}
STREAMS = ("attention scores in memory", "norms, biases and residuals", "embedding", QUANTISATION)
LEAST_SHOWN_RATIO = 1e-9
HOST = "the host, which launches the kernels"
READING = "the host, which reads audio and makes mel frames"
READING_FORMULA = "seconds of audio x seconds of the host for each"
HOST_FORMULA = "kernels x launch - seconds of the kernels"


def encoder_estimate(
    question: EncoderQuestion,
    solution: EncoderSolution,
    streams: StreamFormula,
    num_parameters: int,
    price: PriceRow | None,
    inputs: list[Input],
    notes: list[str],
) -> EncoderEstimate:
    """The answer for one question."""
    q, s = question, solution
    latency_s, rate = latency_of(q, s), s.batch / s.pass_s * q.num_gpus
    audio_rate = audio_s_per_input(q)
    terms = pass_terms(s, streams)
    return EncoderEstimate(
        model=q.model.name,
        kind=q.model.kind,
        unit=q.tower.takes.value,
        gpu=q.gpu.name,
        num_gpus=q.num_gpus,
        engine=q.runtime.name,
        weight_format=q.weights.name,
        inputs=inputs,
        batch=s.batch,
        tokens_per_input=q.size.tokens,
        output_tokens=q.size.output_tokens if q.model.decoder is not None else None,
        num_parameters=num_parameters,
        flop_per_input=flop_per_input(q),
        latency_s=time_figure(latency_s, "s", s),
        inputs_per_s=rate_figure(rate, s),
        audio_s_per_s=None if audio_rate is None else rate_figure(rate * audio_rate, s),
        real_time_factor=None if audio_rate is None else time_figure(s.pass_s / s.batch / audio_rate, "s/s", s),
        price=price,
        usd_per_million_inputs=cost_figure(price, rate / q.num_gpus / MEGA, s),
        usd_per_hour_of_audio=None
        if audio_rate is None
        else cost_figure(price, rate / q.num_gpus * audio_rate / HOUR, s),
        weights_bytes=s.memory.weights_bytes,
        memory_bytes=spread_figure(s.memory.total_bytes(s.batch), "bytes", "transferred"),
        device_bytes=s.memory.device_bytes,
        largest_batch=s.memory.largest_batch,
        verdict=s.memory.verdict(s.batch),
        grade=s.grade.label,
        binding_limit=terms[0].name,
        terms=terms,
        notes=notes,
    )


def latency_of(question: EncoderQuestion, solution: EncoderSolution) -> float:
    """Seconds of one batch; of a recording, of as many batches as its windows fill."""
    q, s = question, solution
    if q.tower.takes is not Takes.WINDOW or q.audio_s is None:
        return s.pass_s
    return s.pass_s * max(q.num_windows / s.batch, 1.0)


def audio_s_per_input(question: EncoderQuestion) -> float | None:
    """Seconds of audio in one input; None where inputs are no audio."""
    return question.new_audio_s or question.audio_s


def time_figure(seconds: float, unit: str, solution: EncoderSolution) -> Figure:
    """A time, or what grows as it does, with its range."""
    low, high = seconds * solution.low_ratio, seconds * solution.high_ratio
    return Figure(value=seconds, unit=unit, low=low, high=high, grade=solution.grade.label)


def rate_figure(rate: float, solution: EncoderSolution) -> Figure:
    """A rate with its range, which moves against that of the time."""
    low, high = rate / solution.high_ratio, rate / solution.low_ratio
    return Figure(value=rate, unit="1/s", low=low, high=high, grade=solution.grade.label)


def cost_figure(price: PriceRow | None, amounts_per_s: float, solution: EncoderSolution) -> Figure | None:
    """USD for one amount that a GPU at full load delivers at this rate; None without a price."""
    if price is None:
        return None
    return time_figure(float(usd_per_request(price.price_per_gpu_usd_per_hour, amounts_per_s)), "USD", solution)


def pass_terms(solution: EncoderSolution, streams: StreamFormula) -> list[ExplainedTerm]:
    """Seconds of one batch by operator, largest first; where the device waits, what it waits."""
    seconds: dict[str, float] = {}
    for operation in solution.times.operations:
        seconds[operation.name] = seconds.get(operation.name, 0.0) + float(operation.total_s[0])
    waited = solution.pass_s - solution.reading_s - sum(seconds.values())
    if waited > LEAST_SHOWN_RATIO * solution.pass_s:
        seconds[HOST] = waited
    if solution.reading_s > 0:
        seconds[READING] = solution.reading_s
    of_streams = dict.fromkeys(STREAMS, stream_words(streams))
    formulas = {**FORMULAS, **of_streams, HOST: HOST_FORMULA, READING: READING_FORMULA}
    return [
        ExplainedTerm(name=name, value=value, unit="s", formula=formulas.get(name, PRODUCT), grade=solution.grade.label)
        for name, value in sorted(seconds.items(), key=lambda item: -item[1])
    ]
