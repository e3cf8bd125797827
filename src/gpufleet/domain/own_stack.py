"""What measurements of one's own say of an engine on a GPU: factors on its times, shrunk by what is known of stacks.

A run's residual is y = ln(measured / predicted) of a time. Stacks (an engine on a GPU) differ from what is shipped by
s, models of one stack by m, layouts of a model by l, sweeps of a layout (one length, several loads) by w, runs of a
sweep by e:

    y = s + m + l + w + e,  each normal about 0 with a variance of its own [ln^2], learnt with stacks left out.

What is wanted is s + m + l of a layout that was measured, s + m of another one of that model, s alone of another model.
A model's steps may also grow faster with their load than predicted: beside m stands b x of it, x = ln(B / 16) of B
sequences together. All are normal with known mean and variance once y is seen (a Gaussian process with that
covariance). A run far from all others counts for less: its e is taken as wide as it is off.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.precision import BF16, FP16
from gpufleet.records import dataclass

TIMES = ("tpot", "ttft")
STEP = "step"
"""A step of training, whose stacks are software on a GPU."""
USUAL_SEQUENCES = 16.0
FAR, ROUNDS = 2.5, 12
"""Standard deviations from where a run is counted by its size and not by its square, and rounds of weighting."""


@dataclass(frozen=True)
class Spreads:
    """How far stacks, models, layouts, sweeps and runs differ, each within the one before: sd of ln   [1].

    `loads`: how much faster the error of a model grows with its load, for e times the sequences.
    """

    stacks: float
    models: float
    layouts: float
    sweeps: float
    runs: float
    loads: float = 0.0

    @property
    def all_squared(self) -> float:
        """The variance of a run of which nothing else was seen."""
        return sum(spread**2 for spread in (self.stacks, self.models, self.layouts, self.sweeps, self.runs))


@dataclass(frozen=True)
class OwnRun:
    """One run's residual of a time, ln(measured / predicted): whose model, in which layout, of which sweep.

    `load` is x of its sequences (`load_of`).
    """

    model: str
    layout: str
    sweep: str
    log_ratio: float
    load: float = 0.0


@dataclass(frozen=True)
class Factor:
    """ln of a factor on a time, normal: its mean, its standard deviation, and what it gains with the load."""

    log: float
    spread: float
    slope: float = 0.0

    def log_at(self, load: float) -> float:
        """Its mean at a load."""
        return self.log + self.slope * load

    @property
    def ratio(self) -> float:
        """The factor that is expected."""
        return float(np.exp(self.log))


@dataclass(frozen=True)
class Fitted:
    """Factors of one time: what models of a stack share, those of models and layouts, and which runs were far off."""

    shared: Factor
    models: Mapping[str, Factor]
    layouts: Mapping[tuple[str, str], Factor]
    far: Sequence[int]
    spreads: Spreads

    def factor_of(self, model: str, layout: str) -> Factor:
        """The factor of a layout that was measured, else of its model, else what models share."""
        return self.layouts.get((model, layout)) or self.models.get(model) or self.shared

    def range_ratio(self, model: str, layout: str) -> float:
        """Half-width of a range in ln, over that of a stack of which nothing was measured."""
        known, s = self.factor_of(model, layout), self.spreads
        unseen = s.sweeps**2 + s.runs**2
        unseen += 0.0 if (model, layout) in self.layouts else s.layouts**2
        unseen += 0.0 if model in self.models else s.models**2
        return float(np.sqrt((known.spread**2 + unseen) / s.all_squared))


def fitted(runs: Sequence[OwnRun], spreads: Spreads) -> Fitted:
    """Factors from runs, drawn to 1 by how little stacks differ.

    >>> spreads = Spreads(stacks=0.1, models=0.1, layouts=0.0, sweeps=0.05, runs=0.05)
    >>> one = fitted([OwnRun("a", "TP1", "a/1", 0.2)], spreads)
    >>> [round(one.factor_of(model, "TP1").log, 3) for model in ("a", "b")]
    [0.16, 0.08]
    """
    y = np.array([run.log_ratio for run in runs])
    shared = spreads.stacks**2 * np.ones((len(runs), len(runs)))
    is_same, loads = alike([run.model for run in runs]), np.array([run.load for run in runs])
    of_model = shared + spreads.models**2 * is_same
    of_load = spreads.loads**2 * is_same * loads
    of_layout = of_model + spreads.layouts**2 * alike([(run.model, run.layout) for run in runs])
    common = (
        of_layout
        + of_load * loads[:, None]
        + spreads.sweeps**2 * alike([(run.model, run.layout, run.sweep) for run in runs])
    )
    weights = np.ones(len(runs))
    for _ in range(ROUNDS):
        covariance = common + np.diag(spreads.runs**2 / weights)
        off = np.abs(np.linalg.solve(covariance, y)) * spreads.runs / weights
        weights = np.minimum(1.0, FAR / np.maximum(off, FAR))
    first = {name: at for at, name in reversed(list(enumerate(run.model for run in runs)))}
    first_layouts = {name: at for at, name in reversed(list(enumerate((run.model, run.layout) for run in runs)))}
    variances = np.cumsum([spreads.stacks**2, spreads.models**2, spreads.layouts**2])
    slopes = {name: posterior(of_load[at], spreads.loads**2, covariance, y).log for name, at in first.items()}

    def factor(with_runs: FloatArray, variance: float, model: str) -> Factor:
        return replace(posterior(with_runs, variance, covariance, y), slope=slopes[model])

    return Fitted(
        shared=posterior(shared[0], variances[0], covariance, y),
        models={name: factor(of_model[at], variances[1], name) for name, at in first.items()},
        layouts={name: factor(of_layout[at], variances[2], name[0]) for name, at in first_layouts.items()},
        far=[int(at) for at in np.flatnonzero(weights < 1.0)],
        spreads=spreads,
    )


def posterior(with_runs: FloatArray, variance: float, covariance: FloatArray, y: FloatArray) -> Factor:
    """Mean and spread of what has this covariance with runs whose residuals are known: k' K^-1 y, v - k' K^-1 k."""
    weights = np.linalg.solve(covariance, with_runs)
    return Factor(float(weights @ y), math.sqrt(max(variance - float(weights @ with_runs), 0.0)))


def alike(names: Sequence[Hashable]) -> FloatArray:
    """1 where two runs have the same name, else 0."""
    return np.array([[float(one == other) for other in names] for one in names])


@dataclass(frozen=True, eq=False)
class OwnStack:
    """An engine on a GPU as its user measured it: factors on its times, and where they come from.

    `name` and `digest` are of the file that keeps it. What follows from a rate of one copy is named by that, `of_rate`.
    """

    engine: str
    gpu: str
    version: str
    num_runs: int
    times: Mapping[str, Fitted]
    name: str = ""
    digest: str = ""
    of_rate: bool = False


def is_of_a_rate(calibration: object) -> bool:
    """Whether a calibration is the pace that a rate of one copy implies."""
    return isinstance(calibration, OwnStack) and calibration.of_rate


def load_of(sequences: float | None) -> float:
    """ln of sequences together over 16: what a factor's slope counts; 0 where they are not known.

    >>> load_of(16.0), round(load_of(128.0), 2), load_of(None)
    (0.0, 2.08, 0.0)
    """
    return math.log(max(sequences, 1.0) / USUAL_SEQUENCES) if sequences else 0.0


def layout_name(tp: int, pp: int, attention_dp: int) -> str:
    """A layout as factors are kept by it; how experts are spread is not told apart.

    >>> layout_name(2, 1, 1), layout_name(4, 2, 2)
    ('TP2', 'TP4 PP2 DP2')
    """
    return " ".join([f"TP{tp}", *([f"PP{pp}"] if pp > 1 else []), *([f"DP{attention_dp}"] if attention_dp > 1 else [])])


def trained_name(model: str, method: str, formats: str) -> str:
    """A model that is trained as factors are kept by it.

    >>> trained_name("llama-3.1-8b", "lora", "bf16")
    'llama-3.1-8b, lora in bf16'
    """
    return f"{model}, {method} in {formats}"


def model_name(model: str, weights: str) -> str:
    """A model as factors are kept by it: with the format that its weights run in; both kinds of 16 bits are one.

    >>> model_name("llama-3.1-8b", "fp8 over fp16"), model_name("llama-3.1-8b", "fp16")
    ('llama-3.1-8b in fp8', 'llama-3.1-8b in bf16')
    """
    return f"{model} in {BF16.name if weights == FP16.name else weights.removesuffix(f' over {FP16.name}')}"
