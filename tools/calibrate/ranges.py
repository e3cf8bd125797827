"""Learns how wide ranges must be: 10th and 90th percentile of residuals that no fit had seen, by engine and regime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from tools.calibrate.between_sources import FEWEST_SOURCES
from tools.calibrate.eras import Key, Residual

from gpufleet.domain.arrays import FloatArray
from gpufleet.performance.uncertainty import crowding, doublings_beyond

TAIL = 0.1
NARROWEST = 0.05
FAMILY_PULL = {"tpot": 3e-4, "ttft": 1e-2}
ERA_PULL = {"tpot": 1e-2, "ttft": 1e-1}
SLOPE_PULL = 5e-5
ROUNDS = 4
SOFTNESS = 0.02
WIDEST_LOG = 5.0
TYPICAL_LOG = -1.5
FEWEST_ROWS = 10
NOMINAL, SHARES = 0.8, np.arange(0.0, 1.01, 0.02).round(2)
SLOPES = {"tpot": ("log_experts",), "ttft": ("log_per_crowding", "log_attention_dp")}
UNITS = {
    "most_sequences": "sequences",
    "tpot_lent_kept": "ratio",
    "ttft_lent_kept": "ratio",
    "most_devices": "GPUs",
    **{f"{end}_{length}_tokens": "tokens" for end in ("least", "most") for length in ("input", "output")},
}


def time_log_ratio(residual: Residual) -> float:
    """ln(measured / predicted) as a time: a rate counts upside down."""
    return -residual.log_ratio if residual.quantity == "rate" else residual.log_ratio


def range_of(residual: Residual) -> str:
    """Whose range a quantity takes: that of the first token, or that of the tokens after it."""
    return "ttft" if residual.quantity == "ttft" else "tpot"


@dataclass(frozen=True)
class Widths:
    """ln widths of one quantity: common to all engines, and what families, their eras and the regime add."""

    low_log: float
    high_log: float
    families: Mapping[Key, float]
    eras: Mapping[Key, float]
    slopes: Mapping[str, float]

    def ends(self, residual: Residual) -> tuple[float, float]:
        """10th and 90th percentile of ln(measured / predicted) where this residual stands."""
        low, high = self.lone_ends(residual.era.family_key, residual.era.key)
        regime = float(np.exp(sum(slope * regime_of(residual, name) for name, slope in self.slopes.items())))
        return low * regime, high * regime

    def lone_ends(self, family: Key, era: Key) -> tuple[float, float]:
        """The same for a lone request of a dense model without attention-DP, never narrower than +-5 %."""
        own = self.families.get(family, 0.0) + self.eras.get(era, 0.0)
        return -max(float(np.exp(self.low_log + own)), NARROWEST), max(float(np.exp(self.high_log + own)), NARROWEST)


def kept_share(widths: Widths, residuals: Sequence[Residual]) -> float:
    """The least share of the range of a lent curve with which ranges hold 80 % where a GPU lends its curves.

    Of every quantity that takes this range and that three sources measured, sources of ten rows or more alike.
    """
    rows = [r for r in residuals if r.is_possible]
    own = np.abs([widths.ends(r) for r in rows]).reshape(-1, 2)
    lent = np.array([r.borrowed_log for r in rows]).reshape(-1, 2)
    log_ratios = np.array([time_log_ratio(r) for r in rows])
    above = (log_ratios > 0).astype(int)

    def is_enough(share: float) -> bool:
        held: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        ends = np.hypot(own, share * lent)[np.arange(len(rows)), above]
        for r, inside in zip(rows, np.abs(log_ratios) <= ends, strict=True):
            held[r.quantity][r.point.source].append(bool(inside))
        large = [{s: of for s, of in sources.items() if len(of) >= FEWEST_ROWS} for sources in held.values()]
        told = [sources for sources in large if len(sources) >= FEWEST_SOURCES] or list(held.values())
        return all(np.mean([np.mean(of) for of in sources.values()]) >= NOMINAL for sources in told)

    return next((float(share) for share in SHARES if is_enough(share)), 1.0) if rows else 1.0


def regime_of(residual: Residual, slope: str) -> float:
    """How far a residual stands in the direction of a slope of `performance.uncertainty.time_bounds`."""
    if slope == "log_per_crowding":
        return float(crowding(residual.sequences))
    return float(residual.point.layout.attention_dp > 1 if slope == "log_attention_dp" else residual.is_moe)


def fit_widths(quantity: str, residuals: Sequence[Residual]) -> Widths:
    """Widths that give the residuals of a quantity the least interval score, each counted in units of its own width.

    score = width + misses / 0.1: the quantile loss of both ends. Families are drawn towards all engines, eras towards
    their family; slopes of a regime are never negative. Rows that no device could have run as stated
    teach nothing, every other row counts the same.
    """
    rows = [r for r in residuals if r.is_possible and range_of(r) == quantity]
    families = sorted({r.era.family_key for r in rows})
    eras = sorted({r.era.key for r in rows if r.era.parent})
    slopes = SLOPES[quantity]
    design = np.array([_design_row(r, families, eras, slopes) for r in rows])
    pulls = np.repeat([FAMILY_PULL[quantity], ERA_PULL[quantity], SLOPE_PULL], [len(families), len(eras), len(slopes)])
    bounds = [(None, None)] * (2 + len(families) + len(eras)) + [(0.0, None)] * len(slopes)
    log_ratios = np.array([time_log_ratio(r) for r in rows])
    low, high, *effects = _least_score(design, log_ratios, pulls, bounds)
    own, later, regimes = np.split(np.array(effects), np.cumsum([len(families), len(eras)]))
    return Widths(
        low,
        high,
        dict(zip(families, own.tolist(), strict=True)),
        dict(zip(eras, later.tolist(), strict=True)),
        dict(zip(slopes, regimes.tolist(), strict=True)),
    )


def _design_row(residual: Residual, families: Sequence[Key], eras: Sequence[Key], slopes: Sequence[str]) -> list[float]:
    own = [float(residual.era.family_key == f) for f in families] + [float(residual.era.key == e) for e in eras]
    return own + [regime_of(residual, name) for name in slopes]


Bound: TypeAlias = tuple[float | None, float | None]


def _least_score(design: FloatArray, log_ratios: FloatArray, pulls: FloatArray, bounds: Sequence[Bound]) -> list[float]:
    found = np.concatenate([[TYPICAL_LOG, TYPICAL_LOG], np.zeros(design.shape[1])])
    for _ in range(ROUNDS):
        relative = 1.0 / np.exp(_effects_log(design, found))
        shares = relative / relative.sum()
        found = minimize(_score, found, (design, log_ratios, shares, pulls), "L-BFGS-B", jac=True, bounds=bounds).x
    return [float(value) for value in found]


def _effects_log(design: FloatArray, values: FloatArray) -> FloatArray:
    return np.clip(design @ values[2:], -WIDEST_LOG, WIDEST_LOG)


def _score(
    values: FloatArray, design: FloatArray, log_ratios: FloatArray, shares: FloatArray, pulls: FloatArray
) -> tuple[float, FloatArray]:
    """The smoothed quantile loss of both ends and the pull of the priors, with the gradient."""
    effects = _effects_log(design, values)
    low, high = np.exp(values[0] + effects), np.exp(values[1] + effects)
    below, above = (-low - log_ratios) / SOFTNESS, (log_ratios - high) / SOFTNESS
    loss = TAIL * (low + high) + SOFTNESS * (np.logaddexp(0.0, below) + np.logaddexp(0.0, above))
    low_slope, high_slope = shares * (TAIL - expit(below)) * low, shares * (TAIL - expit(above)) * high
    gradient = design.T @ (low_slope + high_slope) + 2 * pulls * values[2:]
    total = float((shares * loss).sum() + (pulls * values[2:] ** 2).sum())
    return total, np.concatenate([[low_slope.sum(), high_slope.sum()], gradient])


@dataclass(frozen=True)
class Span:
    """What was measured of an engine: the least and the most of every figure that a range widens beyond."""

    least: Mapping[str, float]
    most: Mapping[str, float]

    @classmethod
    def of(cls, residuals: Sequence[Residual]) -> Span:
        """The span of these measurements; nothing is far where there are none."""
        figures = [figures_of(r) for r in residuals] or [dict.fromkeys(FIGURES, np.nan)]
        ends = {name: [f[name] for f in figures] for name in FIGURES}
        return cls({n: float(min(v)) for n, v in ends.items()}, {n: float(max(v)) for n, v in ends.items()})

    def doublings(self, residual: Residual) -> float:
        """Doublings by which a measurement lies outside."""
        figures = figures_of(residual)
        outside = [
            float(doublings_beyond(figures[n], 1.0 if n in COUNTS else self.least[n], self.most[n])) for n in FIGURES
        ]
        return float(np.nansum(outside))

    def constants(self) -> dict[str, float]:
        """The ends by the names that `performance.uncertainty` reads."""
        least = {f"least_{name}": self.least[name] for name in FIGURES if name not in COUNTS}
        return least | {f"most_{name}": self.most[name] for name in FIGURES}


COUNTS = ("sequences", "devices")
FIGURES = (*COUNTS, "input_tokens", "output_tokens")


def figures_of(residual: Residual) -> dict[str, float]:
    """The figures of a measurement that a range widens beyond."""
    p = residual.point
    devices = p.layout.tp * p.layout.pp * p.layout.attention_dp
    return dict(zip(FIGURES, (residual.sequences, float(devices), *p.lengths), strict=True))


@dataclass(frozen=True)
class Ranges:
    """Everything that the ranges of engines rest on."""

    widths: Mapping[str, Widths]
    spans: Mapping[Key, Span]
    log_per_doubling: float
    lent_kept: Mapping[str, float]

    @classmethod
    def learnt(cls, residuals: Sequence[Residual], lent: Sequence[Residual], log_per_doubling: float) -> Ranges:
        """Ranges from what was left out, and from GPUs left out with their kernels; engines of today share one span."""
        pools: dict[Key, list[Residual]] = {}
        for r in residuals:
            pools.setdefault(span_key(r), []).append(r)
        spans = {key: Span.of(pool) for key, pool in pools.items()}
        widths = {quantity: fit_widths(quantity, residuals) for quantity in ("tpot", "ttft")}
        kept = {
            quantity: kept_share(found, [r for r in lent if range_of(r) == quantity])
            for quantity, found in widths.items()
        }
        return cls(widths, spans, log_per_doubling, kept)

    def ends(self, residual: Residual) -> tuple[float, float]:
        """10th and 90th percentile of ln(measured / predicted) where this residual stands."""
        low, high = self.widths[range_of(residual)].ends(residual)
        span = self.spans.get(span_key(residual), Span.of(()))
        beyond = self.log_per_doubling * span.doublings(residual)
        lent_low, lent_high = (self.lent_kept[range_of(residual)] * log for log in residual.borrowed_log)
        return -float(np.hypot(np.hypot(low, lent_low), beyond)), float(np.hypot(np.hypot(high, lent_high), beyond))

    def constants(self, family: Key, era: Key, span: Key) -> dict[str, float]:
        """What an era's table holds of its ranges."""
        found = {}
        for quantity, widths in self.widths.items():
            found[f"{quantity}_log_low"], found[f"{quantity}_log_high"] = widths.lone_ends(family, era)
            found |= {f"{quantity}_{name}": value for name, value in widths.slopes.items()}
            found[f"{quantity}_lent_kept"] = self.lent_kept[quantity]
        return found | self.spans[span].constants() | {"log_per_doubling": self.log_per_doubling}


def span_key(residual: Residual) -> Key:
    """Engines of today share one span, every other era has its own."""
    return residual.era.span_key
