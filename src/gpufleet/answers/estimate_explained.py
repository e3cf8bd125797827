"""An `Explanation` from a solved estimate: operations with their bounds, accounts of the latencies, what is faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpufleet.answers.serving_estimate import serving_estimate
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import Calibration, CollectiveCurves, Curves, OperatorTables
from gpufleet.layout.support import precisions_of
from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution
from gpufleet.optimize.explain import TimeAccount, TimePart, tpot_account, ttft_account
from gpufleet.optimize.faster import SolvedAlternative, fastest, goal_of, tried_alternatives
from gpufleet.performance.operations import NOTHING, Operation
from gpufleet.performance.step import StepModel
from gpufleet.provenance import Grade
from gpufleet.results.base import ExplainedTerm, Figure
from gpufleet.results.estimate import Ceiling, Change, ExplainedOperation, ExplainedStep, Explanation, TriedChange

FORMULA = "formula"
KERNEL_WORDS = {"gemm": "product", "elementwise": "pass"}
CurveNames = Mapping[str, Sequence[str]]


def explanation(
    question: EstimateQuestion, solution: EstimateSolution, calibration: Calibration, curve_names: CurveNames
) -> Explanation:
    """Why this candidate is as fast as it is; `curve_names` says of every operator whose each table is."""
    c = question.candidates
    gpu = c.palette.accelerators[c.accelerator[0]]
    owners = _Owners(calibration, curve_names)
    decode = _step("TPOT", tpot_account(question, solution), solution.model, owners)
    prefill = _step("TTFT", ttft_account(question, solution), solution.model, owners)
    tried, goal = tried_alternatives(question, solution, calibration), goal_of(question, solution)
    return Explanation(
        gpu=gpu.name,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s,
        link_bytes_per_s=float(c.link_bytes_per_s[0]),
        ceilings=_ceilings(question, gpu, [*decode.operations, *prefill.operations]),
        decode=decode,
        prefill=prefill,
        goal=goal.value,
        changes=[_change(solved) for solved in fastest(tried, goal)],
        tried=[TriedChange.made_of(solved, solved.alternative) for solved in tried],
    )


class _Owners:
    """Whose measurements a curve is, told by its grids."""

    def __init__(self, calibration: Calibration, names: CurveNames) -> None:
        self._names = {
            id(calibration.tables_of(name).grids): named_tables(calibration, name, names[name]) for name in names
        }

    def of(self, curves: Curves | CollectiveCurves | None) -> tuple[Grade, str]:
        """The grade of a curve, and the GPU and format that it was measured on."""
        if curves is None:
            return Grade.MEASURED, FORMULA
        return Grade(int(curves.grade[0])), self._names[id(curves.grids)][int(curves.table[0])]


def named_tables(calibration: Calibration, operator: str, of_rows: Sequence[str]) -> Sequence[str]:
    """Names of the tables of an operator, from those of the rows of its file."""
    tables = calibration.tables_of(operator)
    return [of_rows[row] for row in tables.of_row] if isinstance(tables, OperatorTables) and tables.of_row else of_rows


def _step(total: str, account: TimeAccount, model: StepModel, owners: _Owners) -> ExplainedStep:
    """The operations that run, largest first, and the parts of the total."""
    operations = [o for o in model.operations(account.load) if o.bound[0] != NOTHING]
    named = zip(_distinct_names(operations), operations, strict=True)
    explained = [_operation(name, o, account.kernels_s, owners) for name, o in named]
    return ExplainedStep(
        decoding=_first(account.load.decoding),
        decode_context_tokens=_first(account.load.decode_context_tokens),
        prompts=_first(account.load.prefilling),
        prompt_tokens=_first(account.load.prompt_tokens),
        operations=sorted(explained, key=lambda o: -o.seconds),
        kernels_s=account.kernels_s,
        total=total,
        total_s=account.total_s,
        parts=[_term(part) for part in account.parts],
        longest=_term(account.longest) if account.longest is not None else None,
    )


def _term(part: TimePart) -> ExplainedTerm:
    return ExplainedTerm(name=part.name, value=part.seconds, unit="s", formula=part.formula)


def _first(value: object) -> float:
    return float(np.ravel(np.asarray(value, dtype=np.float64))[0])


def _distinct_names(operations: Sequence[Operation]) -> list[str]:
    """The names, with the kernel where a name stands for several, and a number where several are of one kernel."""
    names = Counter(o.name for o in operations)
    kinds = Counter((o.name, o.kernel) for o in operations)
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for o in operations:
        seen[o.name, o.kernel] += 1
        number = f" {seen[o.name, o.kernel]}" if kinds[o.name, o.kernel] > 1 else ""
        word = f", {KERNEL_WORDS.get(o.kernel, o.kernel)}" if names[o.name] > 1 else ""
        found.append(o.name + word + number)
    return found


def _operation(name: str, operation: Operation, kernels_s: float, owners: _Owners) -> ExplainedOperation:
    o = operation
    grade, curve = owners.of(o.curves)
    each_s, roofline_s, flop = float(o.seconds[0]), float(o.roofline_s[0]), float(o.flop[0])
    over_link = isinstance(o.curves, CollectiveCurves)
    transfer_s = float((o.link_s if over_link else o.memory_s)[0])
    return ExplainedOperation.made_of(
        o,
        name=name,
        shape={label: float(size[0]) for label, size in o.shape if np.isfinite(size[0])},
        seconds_each=each_s,
        seconds=o.count * each_s,
        share_ratio=o.count * each_s / kernels_s,
        flop=flop,
        moved_bytes=float(o.moved_bytes[0]),
        over_link=over_link,
        peak_flop_per_s=flop / float(o.compute_s[0]) if flop else None,
        bytes_per_s=float(o.moved_bytes[0]) / transfer_s if transfer_s else 0.0,
        roofline_s=roofline_s,
        slowdown_ratio=each_s / (roofline_s + o.fixed_s),
        bound=str(o.bound[0]),
        grade=grade.label,
        curve=curve,
    )


def _ceilings(question: EstimateQuestion, gpu: Accelerator, operations: Iterable[ExplainedOperation]) -> list[Ceiling]:
    """The peaks that the operations are held against, highest last, named after the formats in use."""
    palette, c = question.candidates.palette, question.candidates
    used = [*precisions_of(palette.weight_formats[c.weight_format[0]]), palette.kv_precisions[c.kv_precision[0]]]
    likely = [p.arithmetic for p in used]
    names = sorted(gpu.peak_flop_per_s, key=lambda name: name not in likely)
    peaks = sorted({o.peak_flop_per_s for o in operations if o.peak_flop_per_s is not None})
    by_peak = {peak: next((n for n in names if np.isclose(gpu.peak_flop_per_s[n], peak)), "peak") for peak in peaks}
    merged = {name: peak for peak, name in by_peak.items()}
    return [Ceiling(arithmetic=name, flop_per_s=peak) for name, peak in merged.items()]


def _change(solved: SolvedAlternative) -> Change:
    """What an alternative delivers, with ranges of its own."""
    a = solved.alternative
    answer = serving_estimate(a.question, solved.solution, [], [])
    rate, num_gpus = answer.output_tokens_per_s, answer.num_gpus
    low, high = (None if end is None else end / num_gpus for end in (rate.low, rate.high))
    return Change.made_of(
        a,
        solved,
        answer,
        gpus=f"{num_gpus}x {answer.gpu}",
        output_tokens_per_s_per_gpu=Figure(
            value=rate.value / num_gpus, unit="1/s", low=low, high=high, grade=answer.grade
        ),
    )
