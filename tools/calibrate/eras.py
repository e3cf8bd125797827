"""Eras of engines, which share constants, and residuals: how far a fit was from a measurement that it had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tools.calibrate.serving_rows import Point

from gpufleet.domain.versions import version_key

Key: TypeAlias = tuple[str, str]


class Prior(NamedTuple):
    """Where a fit of a constant begins, and how far it may pull it from there."""

    value: float
    spread: float


@dataclass(frozen=True)
class Era:
    """Versions of an engine below `until` that share constants.

    Eras of one `parent` differ by degrees: each is drawn towards what all of them fit together. `freedom` scales how
    far a fit may go from its prior; `priors` are those of constants that are known better than of engines in general.
    """

    engine: str
    name: str
    until: str | None
    grade: str = "measured"
    freedom: float = 1.0
    parent: str | None = None
    priors: Mapping[str, Prior] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> Key:
        """What distinguishes it from every other era."""
        return self.engine, self.name

    @property
    def family_key(self) -> Key:
        """What it has in common with eras of the same parent."""
        return self.engine, self.parent or self.name

    @property
    def span_key(self) -> Key:
        """Where it shares what was measured: with all engines of today, else with none."""
        return ("", "today") if self.parent else self.key

    def holds(self, point: Point) -> bool:
        """Whether a point ran in this era or an older one."""
        if point.engine != self.engine:
            return False
        return self.until is None or (
            point.version is not None and version_key(point.version) < version_key(self.until)
        )


PLAIN_TRANSFORMERS = {
    # 0.76 to 0.78 ms a layer of Qwen-1.8B, 7B and 14B in bf16 (QwenLM/Qwen README.md@2df8e8ac45), of ten kernels
    "eager_kernel_s": Prior(77e-6, 12e-6),
    # some 45 kernels a layer, of which we count ten: the others take 2 to 3 us each
    "kernel_overhead_s": Prior(9e-6, 3e-6),
    # nothing is mixed into a prefill, and nothing scheduled
    "prefill_scale_ratio": Prior(1.0, 0.3),
    "eager_int8_wo_ratio": Prior(1.0, 0.3),
    "eager_int4_ratio": Prior(1.0, 0.3),
    "eager_awq_ratio": Prior(1.0, 0.3),
}
FUSED_AWQ = {
    # 0.18 to 0.20 ms a layer on an A100, 28 to 40 layers: TinyChat's modules, which AutoAWQ's come from
    "eager_kernel_s": Prior(18e-6, 6e-6),
    "prefill_scale_ratio": Prior(1.0, 0.3),
}
BETWEEN_RUNTIMES = {
    # 0.55 ms in static batches before it, 0.19 ms under the PyTorch runtime after it: full queues, with which alone it
    # was measured, do not tell a step's own time from that of its sequences
    "step_overhead_s": Prior(0.4e-3, 0.3e-3),
}
ERAS = (
    Era("vllm", "V0, before 0.8", "0.8"),
    Era("vllm", "V1, 0.8 to 0.12", "0.13", parent="V1"),
    Era("vllm", "V1, 0.13 and later", None, parent="V1"),
    Era("sglang", "before 0.5.7", "0.5.7", parent="0.5"),
    Era("sglang", "0.5.7 and later", None, parent="0.5"),
    Era("tensorrt-llm", "static batches, before 0.10", "0.10"),
    Era("tensorrt-llm", "C++ runtime, before 1.0", "1.0", priors=BETWEEN_RUNTIMES),
    Era("tensorrt-llm", "PyTorch runtime, 1.0", "1.1", parent="PyTorch"),
    Era("tensorrt-llm", "PyTorch runtime, 1.1 and later", None, parent="PyTorch"),
    Era("gpt-fast", "2023-2024", None),
    Era("fastertransformer", "5", None),
    Era("transformers", "4", None, "transferred", 3.0, priors=PLAIN_TRANSFORMERS),
    Era("autoawq", "fused modules", None, "transferred", 3.0, priors=FUSED_AWQ),
    Era("llama.cpp", "2023-2024", None, "transferred", 3.0),
)


def era_name(point: Point) -> Era:
    """The era of a point: the oldest whose bound its version stays below."""
    return next(era for era in ERAS if era.holds(point))


@dataclass(frozen=True)
class Residual:
    """ln(measured / predicted) of one quantity of one point that the fit had not seen."""

    era: Era
    quantity: str
    point: Point
    log_ratio: float
    is_possible: bool
    sequences: float
    has_room: bool
    borrowed_log: tuple[float, float] = (0.0, 0.0)
    is_moe: bool = False
