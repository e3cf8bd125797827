"""Which figures stand in the picture: times of serving points, output tokens per second, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpufleet.accuracy.grouping import ENGINE, GPU, Key
from gpufleet.accuracy.statistics import group_scores, is_predicted
from gpufleet.records import dataclass
from gpufleet.report.accuracy import error_text
from gpufleet.report.measured_plot import DISC, INKS, SQUARE, Panel, Series
from gpufleet.report.numbers import amount, count, duration_unit
from gpufleet.results.accuracy import AccuracyReport, ScoredFigure
from gpufleet.units import MILLISECOND

INK_OF_ENGINE: Mapping[str, str] = {
    "vllm": "blue",
    "sglang": "vermilion",
    "trtllm": "green",
    "tensorrt-llm": "green",
    "gpt-fast": "purple",
    "fastertransformer": "orange",
    "llama.cpp": "sky",
    "hf-transformers": "yellow",
}
OTHER_INK = INKS[-1]


@dataclass(frozen=True)
class View:
    """One panel: which figures of which kind of file, and by what they are coloured."""

    title: str
    kind: str
    quantity: str
    by: Key
    show: Callable[[float], str]


def engine_and_client(figure: ScoredFigure) -> str:
    """Who measured which engine, without the GPU.

    >>> of_vllm = {"engine": "vllm", "group": "internal x vllm x B200"}
    >>> engine_and_client(ScoredFigure(file="f", row=2, quantity="ttft", unit="ms", **of_vllm))
    'vllm, internal'
    """
    client, _, rest = figure.group.partition(" x ")
    return f"{figure.engine}, {client}" if rest.startswith(figure.engine) else figure.engine


def milliseconds(number: float) -> str:
    """A time of the file on an axis.

    >>> milliseconds(20.0), milliseconds(5000.0)
    ('20 ms', '5 s')
    """
    unit, scale = duration_unit(number * MILLISECOND)
    return f"{amount(number * MILLISECOND / scale)} {unit}"


def method_of_group(figure: ScoredFigure) -> str:
    """What learns.

    >>> of_lora = {"group": "lora, bf16-true", "quantity": "peak_memory", "unit": "GB"}
    >>> method_of_group(ScoredFigure(file="f", row=2, **of_lora))
    'lora'
    """
    return figure.group.partition(",")[0]


def gigabytes(number: float) -> str:
    """Memory of the file on an axis, in GB or GiB as each row prints it."""
    return f"{amount(number)} GB"


VIEWS = (
    View("Time per output token", "serving_points", "tpot", engine_and_client, milliseconds),
    View("Time to first token", "serving_points", "ttft", engine_and_client, milliseconds),
    View("Output tokens per second", "inference_throughput", "out_tokens_per_s", ENGINE, count),
    View("Training, tokens per second and GPU", "training_throughput", "tokens_per_s_per_gpu", GPU, count),
    View("Training, peak memory", "training_memory", "peak_memory", method_of_group, gigabytes),
)


def accuracy_panels(report: AccuracyReport) -> list[Panel]:
    """The panels that the files of a report give something for."""
    return [panel for view in VIEWS if (panel := panel_of(view, shown_figures(report, view)))]


def shown_figures(report: AccuracyReport, view: View) -> list[ScoredFigure]:
    """Figures of a view with a measurement and a prediction; both are above zero."""
    of_kind = (figure for file in report.files if file.kind == view.kind for figure in file.figures)
    return [figure for figure in of_kind if figure.quantity == view.quantity and is_predicted(figure)]


def panel_of(view: View, figures: Sequence[ScoredFigure]) -> Panel | None:
    """One panel with its series, those of most points first; None without a figure."""
    if not figures:
        return None
    groups: dict[str, list[ScoredFigure]] = {}
    for figure in figures:
        groups.setdefault(view.by(figure) or "not stated", []).append(figure)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    clients = sorted({name.partition(", ")[2] for name in groups})
    subtitle = f"{count(len(figures))} points, median error {median_error(figures)}"
    series = [series_of(*group, clients, place) for place, group in enumerate(ordered)]
    return Panel(view.title, subtitle, series, view.show)


def series_of(name: str, figures: Sequence[ScoredFigure], clients: Sequence[str], place: int) -> Series:
    """A group in the ink of its engine, without engine in that of its place; the first client has discs."""
    engine = figures[0].engine
    ink = INK_OF_ENGINE.get(engine, OTHER_INK) if engine else INKS[min(place, len(INKS) - 1)]
    mark = DISC if clients.index(name.partition(", ")[2]) == 0 else SQUARE
    points = [(figure.measured or 0.0, figure.predicted or 0.0) for figure in figures]
    return Series(f"{name}: {count(len(figures))} points, median {median_error(figures)}", ink, mark, points)


def median_error(figures: Sequence[ScoredFigure]) -> str:
    """The median error of figures, as a percentage."""
    return error_text(group_scores("picture", "", "", figures).median_error_ratio)
