"""How far predictions are from measurements."""

from __future__ import annotations

from pydantic import Field

from gpufleet.results.base import SCHEMA_VERSION, Result


class ScoredFigure(Result):
    """One measured quantity of one row beside its prediction, in the unit of the file.

    `reason` says why there is no prediction; on rows that ran out of memory, whether they were predicted to fit.
    `group` is what the kind of file is grouped by; `kv_room` whether the estimate leaves room for few sequences.
    `seen`: whether the shipped constants were fitted to this row, to others of its source, or to neither.
    """

    file: str
    row: int
    quantity: str
    unit: str
    measured: float | None = None
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    grade: str | None = None
    reason: str | None = None
    source: str = ""
    model_id: str = ""
    gpu_id: str = ""
    engine: str = ""
    group: str = ""
    kv_room: str | None = None
    seen: str | None = None


class GroupScores(Result):
    """Errors of a group of figures: `error = |predicted / measured - 1|`, `bias` the median ratio less one.

    `interval_coverage_ratio` is the share of measurements between low and high (nominal 0.8); its own low and high are
    the 10th and 90th percentile of that share when `num_parties` (sources; for serving points client x engine x GPU)
    are drawn again with replacement. `half_width_ratio` is the median of sqrt(high / low) - 1.
    """

    by: str
    group: str
    quantity: str
    num_figures: int
    num_predicted: int
    coverage_ratio: float
    median_error_ratio: float | None = None
    mean_error_ratio: float | None = None
    bias_ratio: float | None = None
    interval_coverage_ratio: float | None = None
    interval_coverage_low_ratio: float | None = None
    interval_coverage_high_ratio: float | None = None
    num_parties: int = 0
    half_width_ratio: float | None = None


class VerdictCounts(Result):
    """Memory verdicts against what happened: runs that ran, runs that failed for lack of memory."""

    num_ran: int = 0
    num_false_does_not_fit: int = 0
    num_failed: int = 0
    num_false_fits: int = 0


class ReasonCount(Result):
    """How many rows or figures share a reason."""

    reason: str
    count: int


class ScoredRun(Result):
    """One run of a benchmark beside its predictions; `doubts` are what its file does not say, or counts otherwise.

    `model` is with the format of its weights, `layout` and `lengths` are short names; `gpu` is empty where the run
    cannot be predicted, `clients` where requests came at a rate.
    """

    name: str
    client: str
    engine: str = ""
    engine_version: str = ""
    gpu: str = ""
    model: str = ""
    layout: str = ""
    lengths: str = ""
    clients: float | None = None
    figures: list[ScoredFigure]
    doubts: list[str] = []


class FileAccuracy(Result):
    """Scores of one file. Rows that are not scored are counted under `left_out`, with the reason."""

    file: str
    kind: str
    is_replayed: bool = False
    is_closed_form: bool = False
    num_rows: int
    num_scored_rows: int
    num_covered_rows: int
    coverage_ratio: float
    groups: list[GroupScores]
    worst: list[ScoredFigure]
    verdicts: VerdictCounts
    left_out: list[ReasonCount]
    without_prediction: list[ReasonCount]
    notes: list[str] = []
    runs: list[ScoredRun] = []
    figures: list[ScoredFigure] = Field(default_factory=list, exclude=True, repr=False)


class AccuracyReport(Result):
    """Scores of every file that was given."""

    schema_version: str = SCHEMA_VERSION
    files: list[FileAccuracy]
