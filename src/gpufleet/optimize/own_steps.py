"""Steps of training at the pace that their user saw: which layouts a stack of his own moves, and how far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.own_stack import STEP, OwnStack, layout_name, trained_name
from gpufleet.domain.training import Recipe, TrainingLayouts, TrainingMachine


def own_steps(
    own: OwnStack | None, model: str, recipe: Recipe, layouts: TrainingLayouts, machines: Sequence[TrainingMachine]
) -> tuple[Floats, Floats]:
    """How many times as long a step of each layout takes, and what is left of its range; on other GPUs 1."""
    if own is None or STEP not in own.times:
        return 1.0, 1.0
    fitted, name = own.times[STEP], name_of(model, recipe)
    is_own = np.array([machine.accelerator.name == own.gpu for machine in machines])[layouts.device]
    of_layout: dict[tuple[int, int], tuple[float, float]] = {}
    for tp, pp in {*zip(layouts.tp.tolist(), layouts.pp.tolist(), strict=True)}:
        layout = layout_name(int(tp), int(pp), 1)
        of_layout[tp, pp] = fitted.factor_of(name, layout).ratio, fitted.range_ratio(name, layout)
    found: FloatArray = np.array([of_layout[at] for at in zip(layouts.tp.tolist(), layouts.pp.tolist(), strict=True)])
    return tuple(np.where(is_own[:, None], found.reshape(-1, 2), 1.0).T)


def name_of(model: str, recipe: Recipe) -> str:
    """A model as factors on its steps are kept by it."""
    return trained_name(model, recipe.method.value, recipe.formats.name)


def own_steps_note(own: OwnStack, model: str, recipe: Recipe, gpu: str, tp: int, pp: int) -> str:
    """What runs of one's own moved of the steps of a layout."""
    runs = f"{own.num_runs} run{'' if own.num_runs == 1 else 's'} of {own.engine} on {own.gpu}"
    what = f"What you measured ({f'{own.name}, {own.digest}: ' if own.digest else ''}{runs})"
    if gpu != own.gpu or STEP not in own.times:
        return f"{what} moves nothing here"
    fitted, name, layout = own.times[STEP], name_of(model, recipe), layout_name(tp, pp, 1)
    factor, narrower = fitted.factor_of(name, layout), fitted.range_ratio(name, layout)
    return f"{what} makes of {name}, {layout}: steps x{factor.ratio:.2f} with x{narrower:.2f} their range"
