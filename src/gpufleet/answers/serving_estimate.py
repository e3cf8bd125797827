"""A `ServingEstimate` from a solved estimate: figures with ranges, the step in microseconds, what binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

from gpufleet.answers.figures import PRODUCT, accepted_tokens, stream_words
from gpufleet.answers.service_figures import latency_figures
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.slo import METRICS
from gpufleet.optimize.copies.decoder import ENGINE_LIMIT
from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution, layout_of, least_token_s
from gpufleet.optimize.size import QUANTILES, ROOM
from gpufleet.performance.layer_operators import (
    HEAD_NORMS,
    INDEX,
    OVER_CACHE,
    OVER_PROMPTS,
    POSITIONS,
    SCALE_SEARCH,
    SPLIT_SUMS,
    STATE,
)
from gpufleet.performance.operator_groups import QUANTISATION
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import Bounds, grades, time_bounds
from gpufleet.provenance import Grade
from gpufleet.report.words import limit_words
from gpufleet.results.base import ExplainedTerm, Figure, Input, Ranks
from gpufleet.results.estimate import LatencyPercentile, ServingEstimate

FORMULAS = {
    OVER_CACHE: "bytes of K and V / bandwidth, over the measured decode-attention curve",
    OVER_PROMPTS: "flop of causal pairs / peak, over the measured prefill-attention curve",
    STATE: "bytes of the states, read and written / bandwidth, over the curve of the update",
    INDEX: "products of the index, bytes of its entries / bandwidth, over the measured curves",
    "experts": "weights of the active experts / bandwidth or flop / peak, over the measured grouped-product curve",
    "expert exchange": "bytes of the tokens / link, over the measured collective",
}
STREAMS = ("norms and residuals", HEAD_NORMS, POSITIONS, QUANTISATION)
Factors: TypeAlias = tuple[float, float]
ALL_REDUCE = "2 (n - 1) / n bytes / link, over the measured all-reduce"


def serving_estimate(
    question: EstimateQuestion, solution: EstimateSolution, inputs: list[Input], notes: list[str]
) -> ServingEstimate:
    """The answer for one candidate that fits."""
    serving = solution.serving
    assert serving is not None, "only a candidate that fits has an estimate"
    lengths, model = question.lengths, solution.model
    replica = model.once(replica_of)
    bounds = time_bounds(model, serving.batch, lengths)
    tpot = factors(bounds["tpot"].stopping_at(serving.tpot_s, model.once(least_token_s)))
    ttft = factors(bounds["ttft"])
    grade = replica["grade"]
    terms = explained_terms(model, solution.decode_terms(lengths), grade)
    binding = what_binds(question, solution, terms)
    first, later = float(serving.ttft_s[0]), float(serving.tpot_s[0])
    whole = first + (float(lengths.output_tokens) - 1) * later
    figures = _of_arrivals(solution, bounds, grade)
    means = [figures[f"{metric}.mean"] for metric in METRICS if figures]
    ttft_s, tpot_s, latency_s = means or latencies((first, later, whole), tpot, ttft, grade)
    rate, output_tokens = float(serving.requests_per_s[0]), float(lengths.output_tokens)
    requests_per_s, output_tokens_per_s = rates(question.load.scenario, rate, output_tokens, tpot, grade)
    return ServingEstimate(
        **replica,
        scenario=question.load.scenario,
        inputs=inputs,
        verdict=solution.verdict,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        latency_s=latency_s,
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_tokens_per_s,
        percentiles=_percentiles(figures),
        batch=float(serving.batch[0]),
        largest_batch=solution.largest_batch,
        load_ratio=solution.load_ratio,
        binding=binding,
        binding_limit=limit_words(binding),
        terms=terms,
        notes=notes,
    )


class Replica(TypedDict):
    """What an answer says of its replica under any load."""

    model: str
    gpu: str
    num_gpus: int
    layout: str
    ranks: Ranks
    engine: str
    weight_format: str
    kv_precision: str
    accepted_tokens: Figure | None
    grade: str


def replica_of(model: StepModel) -> Replica:
    """The one candidate of a model in words."""
    c, palette = model.candidates, model.candidates.palette
    return Replica(
        model=model.arch.name,
        gpu=palette.accelerators[c.accelerator[0]].name,
        num_gpus=int(c.num_devices[0]),
        layout=layout_of(c).label,
        ranks=Ranks.made_of(layout_of(c)),
        engine=palette.engines[0].name,
        weight_format=palette.weight_formats[0].name,
        kv_precision=palette.kv_precisions[0].name,
        accepted_tokens=accepted_tokens(c, 0),
        grade=Grade(int(grades(model)[0])).label,
    )


def latencies(seconds: Sequence[float], tpot: Factors, ttft: Factors, grade: str) -> tuple[Figure, Figure, Figure]:
    """TTFT, TPOT and end-to-end latency, what comes after the first token as late as its steps."""
    first, later, whole = seconds
    (first_low, first_high), (later_low, later_high) = _ends(ttft, first), _ends(tpot, later)
    rest_low, rest_high = _ends(tpot, whole - first)
    return (
        Figure.between(first, "s", first_low, first_high, grade),
        Figure.between(later, "s", later_low, later_high, grade),
        Figure.between(whole, "s", first_low + rest_low, first_high + rest_high, grade),
    )


def _of_arrivals(solution: EstimateSolution, bounds: Mapping[str, Bounds], grade: str) -> dict[str, Figure]:
    """Every latency figure of arrivals with its range, as a plan has them."""
    if solution.capacity is None or solution.running is None:
        return {}
    floors_s = {"tpot": solution.model.once(least_token_s)}
    ratios = {**bounds, "latency": bounds["tpot"]}
    return latency_figures(solution.capacity, 0, solution.running, ratios, grade, floors_s)


def _percentiles(figures: Mapping[str, Figure]) -> list[LatencyPercentile]:
    """The latencies of arrivals at each quantile."""
    return [
        LatencyPercentile(quantile=quantile, **{f"{metric}_s": figures[f"{metric}.{name}"] for metric in METRICS})
        for name, quantile in QUANTILES.items()
        if quantile is not None and figures
    ]


def factors(bounds: Bounds) -> Factors:
    """The bounds of the one candidate, as plain numbers."""
    return float(bounds.low_ratio[0]), float(bounds.high_ratio[0])


def _ends(factors: Factors, value: float) -> tuple[float, float]:
    low, high = factors
    return value * low, value * high


def rates(scenario: str, rate: float, output_tokens: float, tpot: Factors, grade: str) -> tuple[Figure, Figure]:
    """Requests and output tokens per second; they move against TPOT, but for arrivals at a rate of their own."""
    low, high = rate / tpot[1], rate / tpot[0]
    if scenario == "open_loop":
        low = high = rate
    return (
        Figure.between(rate, "1/s", low, high, grade),
        Figure.between(rate * output_tokens, "1/s", low * output_tokens, high * output_tokens, grade),
    )


def what_binds(question: EstimateQuestion, solution: EstimateSolution, terms: list[ExplainedTerm]) -> str:
    """What takes most of a decode step, or what keeps clients waiting."""
    waiting = question.load.scenario == "closed_loop" and question.load.amount > solution.largest_batch
    if waiting:
        return ENGINE_LIMIT if solution.limited_by_engine else ROOM
    return terms[0].name


def explained_terms(model: StepModel, seconds: Mapping[str, FloatArray], grade: str) -> list[ExplainedTerm]:
    """Kernel seconds of a step of the one candidate by operator, with their formulas, largest first."""
    terms = {name: float(each[0]) for name, each in seconds.items()}
    known = model.hardware.calibration.formulas
    of_streams = dict.fromkeys(STREAMS, stream_words(known.streams))
    formulas = {**FORMULAS, **of_streams, SCALE_SEARCH: stream_words(known.scale_search)}
    formulas[SPLIT_SUMS] = stream_words(known.split_sums)
    return [
        ExplainedTerm(
            name=name,
            value=terms[name],
            unit="s",
            formula=formulas.get(name, ALL_REDUCE if name.startswith("all-reduce") else PRODUCT),
            grade=grade,
        )
        for name in sorted(terms, key=lambda name: -terms[name])
    ]
