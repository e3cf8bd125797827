"""Candidates on a GPU on which their user measured an engine run at the pace that he saw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.own_stack import OwnStack, layout_name, model_name


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
    return Candidates(replace(palette, engines=tuple(engines)), **{**candidates.columns(), "engine": index})


def own_runs_note(engine: EngineProfile, model: str, copies: Iterable[tuple[str, str, Layout]]) -> str | None:
    """What a user's own runs moved of the first of these copies (GPU, weights, layout) that is on his stack."""
    own = engine.own
    if own is None:
        return None
    if own.of_rate:
        return own_rate_note(own)
    runs = f"{own.num_runs} run{'' if own.num_runs == 1 else 's'} of {own.engine} on {own.gpu}"
    what = f"{own.name} ({own.digest}: {runs})"
    copy = next((each for each in copies if each[0] == own.gpu), None)
    if copy is None:
        return f"{what} moves nothing here: nothing runs on {own.gpu}"
    name, layout = model_name(model, copy[1]), layout_name(copy[2].tp, copy[2].pp, copy[2].attention_dp)
    told = [(time, x.factor_of(name, layout), x.range_ratio(name, layout)) for time, x in own.times.items()]
    moved = [f"{time.upper()} x{factor.ratio:.2f} with x{narrower:.2f} its range" for time, factor, narrower in told]
    return f"{what} makes of {name}, {layout}: {', '.join(moved)}"


def own_rate_note(own: OwnStack) -> str:
    """Of which copies a user gave the rate, and what the other figures of them rest on."""
    factors = own.times["tpot"].layouts
    (model, _), factor = next(iter(factors.items()))
    layouts = " or ".join(layout for _, layout in factors)
    return (
        f"{own.name} a copy is given by you: copies of {model} on {own.gpu}, {layouts}, carry it; nothing else moves. "
        f"Their TTFT and TPOT are predicted at the pace that it implies (x{factor.ratio:.2f}); --calibration takes "
        "runs that say them"
    )
