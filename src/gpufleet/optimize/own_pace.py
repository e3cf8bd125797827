"""Candidates on a GPU on which their user measured an engine run at the pace that he saw."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.own_stack import layout_name, model_name


def with_own_pace(candidates: Candidates, model: str) -> Candidates:
    """The candidates of a model, those on a measured stack with an engine of their own for each format and layout."""
    palette = candidates.palette
    if all(engine.own is None for engine in palette.engines):
        return candidates
    engines, index = list(palette.engines), candidates.engine.copy()
    paces: dict[tuple[int, str, str], int] = {}
    for row in range(len(candidates)):
        engine = palette.engines[candidates.engine[row]]
        if engine.own is None or palette.accelerators[candidates.accelerator[row]].name != engine.own.gpu:
            continue
        weights = palette.weight_formats[candidates.weight_format[row]].name
        layout = layout_name(*(int(column[row]) for column in (candidates.tp, candidates.pp, candidates.attention_dp)))
        key = (int(candidates.engine[row]), model_name(model, weights), layout)
        if key not in paces:
            paces[key] = len(engines)
            engines.append(engine.paced(*key[1:]))
        index[row] = paces[key]
    columns = {**candidates.columns(), "engine": index}
    return Candidates(replace(palette, engines=tuple(engines)), **columns)


def measured_by_user(engine: EngineProfile, model: str, weights: str, layout: str, gpu: str) -> str | None:
    """In a few words, what a user's own runs moved of an engine; None where they say nothing of it."""
    own = engine.own
    if own is None or own.gpu != gpu:
        return None
    name = model_name(model, weights)
    factors = [
        f"{time.upper()} x{found.factor_of(name, layout).ratio:.2f}, its range x{found.range_ratio(name, layout):.2f}"
        for time, found in own.times.items()
    ]
    return f"{own.name} ({own.digest}), {own.num_runs} runs of {own.engine} on {own.gpu}: {'; '.join(factors)}"
