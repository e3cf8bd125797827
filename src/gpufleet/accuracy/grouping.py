"""By what each kind of file is grouped, and the scores of every group, worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from gpufleet.accuracy.statistics import group_scores
from gpufleet.results.accuracy import GroupScores, ScoredFigure

Key = Callable[[ScoredFigure], str | None]
EVERYTHING = "all"
BY_SEEN = "what fits have seen"
OWN_TARGETS = ("tensorrt-llm", "trtllm", "vllm", "gpt-fast")


def engine_target(figure: ScoredFigure) -> str:
    """Engines whose constants are fitted, apart from those that are carried over."""
    return "TensorRT-LLM, vLLM, gpt-fast" if figure.engine in OWN_TARGETS else "other engines"


def source_document(figure: ScoredFigure) -> str:
    """The document that a row was taken from, without the place in it."""
    return figure.source.split(";")[0]


def everything(figure: ScoredFigure) -> str:
    """One group of all."""
    return EVERYTHING


GROUP, ENGINE, GPU = attrgetter("group"), attrgetter("engine"), attrgetter("gpu_id")
MODEL, GRADE, KV_ROOM = attrgetter("model_id"), attrgetter("grade"), attrgetter("kv_room")
SEEN = attrgetter("seen")

GROUPINGS: Mapping[str, Mapping[str, Key]] = {
    "param_counts": {EVERYTHING: everything, "kind of model": GROUP},
    "inference_memory": {
        EVERYTHING: everything,
        "source": source_document,
        "engine": ENGINE,
        "GPU": GPU,
        "grade": GRADE,
    },
    "inference_throughput": {
        EVERYTHING: everything,
        "engines": engine_target,
        "KV cache": KV_ROOM,
        "source": source_document,
        "engine": ENGINE,
        "GPU": GPU,
        "grade": GRADE,
    },
    "other_models": {
        EVERYTHING: everything,
        "task, engine and precision": GROUP,
        "source": source_document,
        "engine": ENGINE,
        "model": MODEL,
        "GPU": GPU,
        "grade": GRADE,
    },
    "serving_points": {
        EVERYTHING: everything,
        "KV cache": KV_ROOM,
        "client x engine x GPU": GROUP,
        "source": source_document,
        "engine": ENGINE,
        "model": MODEL,
        "GPU": GPU,
        "grade": GRADE,
    },
    "serving_under_load": {
        EVERYTHING: everything,
        "group": GROUP,
        "engine": ENGINE,
        "model": MODEL,
        "GPU": GPU,
        "grade": GRADE,
    },
    "serving_points_disagg": {
        EVERYTHING: everything,
        "client x engine x GPU": GROUP,
        "engine": ENGINE,
        "model": MODEL,
        "GPU": GPU,
        "grade": GRADE,
    },
    "training_throughput": {
        EVERYTHING: everything,
        "source": source_document,
        "task and precision": GROUP,
        "model": MODEL,
        "GPU": GPU,
        "grade": GRADE,
    },
    "training_memory": {
        EVERYTHING: everything,
        "source": source_document,
        "task and precision": GROUP,
        "model": MODEL,
        "GPU": GPU,
    },
}


PARTIES: Mapping[str, Callable[[ScoredFigure], str]] = {
    "param_counts": GROUP,
    "serving_points": GROUP,
    "serving_under_load": GROUP,
    "serving_points_disagg": GROUP,
}


def all_groups(kind: str, figures: Sequence[ScoredFigure]) -> list[GroupScores]:
    """Scores by every grouping of this kind of file; in each, the worst group first."""
    groupings, party = dict(GROUPINGS.get(kind, {EVERYTHING: everything})), PARTIES.get(kind, source_document)
    if len({figure.seen for figure in figures}) > 1:
        groupings = {EVERYTHING: everything, BY_SEEN: SEEN, **groupings}
    return [scores for by, key in groupings.items() for scores in groups_by(by, key, figures, party)]


def groups_by(
    by: str, key: Key, figures: Iterable[ScoredFigure], party: Callable[[ScoredFigure], str] = GROUP
) -> list[GroupScores]:
    """Scores of every group and quantity; figures without a key (no grade: no prediction) are in no group."""
    members: dict[tuple[str, str], list[ScoredFigure]] = defaultdict(list)
    for figure in figures:
        group = key(figure)
        if group is not None:
            members[group or "not stated", figure.quantity].append(figure)
    scores = [group_scores(by, group, q, found, party) for (group, q), found in members.items()]
    return sorted(scores, key=misses_first)


def misses_first(scores: GroupScores) -> tuple[float, float, str, str]:
    """The largest median error first; groups without a prediction before all."""
    error = scores.median_error_ratio
    return (-float("inf") if error is None else -error, scores.coverage_ratio, scores.group, scores.quantity)
