"""Files of measurements that nothing predicts yet: every row is read, and says why it has no prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpufleet.accuracy.figures import Quantity, RowLabels, RowScores, has_failed, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass


@dataclass(frozen=True)
class NotPlanned:
    """What files of a kind measure, and why none of it is predicted."""

    quantities: Sequence[Quantity]
    reason: str

    def score(self, row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
        """Every measured quantity of a row without a prediction."""
        wanted = stated(row, self.quantities)
        if not wanted:
            return RowScores(left_out="states nothing that is scored")
        labels = RowLabels(file, row, group=row.text("source"))
        figures = [labels.without_prediction(quantity, self.reason) for quantity in wanted]
        return RowScores(figures, ran=not has_failed(row))


NOT_PLANNED: Mapping[str, NotPlanned] = {
    "serving_points_disagg": NotPlanned(
        (Quantity("ttft", "silicon_ttft_ms", "ms"), Quantity("tpot", "silicon_tpot_ms", "ms")),
        "prefill and decode on separate GPUs is not planned yet",
    ),
}
NOT_PLANNED_SCORERS: Mapping[str, Callable[[MeasurementRow, str, ModelFinder], RowScores]] = {
    kind: found.score for kind, found in NOT_PLANNED.items()
}
