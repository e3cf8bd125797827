"""The layout of one copy as it is stated, or as is usual where nothing is."""

from __future__ import annotations

from gpufleet.domain.layout import Layout
from gpufleet.errors import UsageError

MOST_DEVICES = 4096


def stated_layout(
    number: int,
    tp: int | None,
    pp: int,
    ep: int | None,
    attention_dp: int,
    gpus_per_machine: int,
    *,
    by_layer: bool = False,
) -> Layout:
    """The stated layout of so many GPUs.

    Where nothing is stated, TP over the GPUs of a machine and a stage on each of several, or pipeline stages in
    engines that split `by_layer`.
    """
    for name, parts in (
        ("pp", pp),
        ("attention_dp", attention_dp),
        ("tp", 1 if tp is None else tp),
        ("ep", 1 if ep is None else ep),
    ):
        if not 1 <= parts <= MOST_DEVICES:
            raise UsageError(f"--{name.replace('_', '-')} must be from 1 to {MOST_DEVICES}", found=parts)
    if by_layer and tp is None:
        tp, pp = 1, number if pp * attention_dp == 1 else pp
    if tp is None and pp == 1:
        pp = fewest_stages(number, attention_dp, gpus_per_machine)
    tensor = tp or max(number // (pp * attention_dp), 1)
    stage = tensor * attention_dp
    if stage % (ep or 1):
        raise UsageError(f"EP {ep} does not divide the {stage} GPUs of a stage")
    layout = Layout(tensor, pp, ep or 1, attention_dp)
    if layout.num_devices != number:
        found = f"{layout.label} is {layout.num_devices} of {number}"
        hint = f"A copy on {layout.num_devices} of them is '--gpus NAME:{layout.num_devices}'."
        raise UsageError("the layout does not use the GPUs", found=found, hint=hint)
    return layout


def fewest_stages(number: int, attention_dp: int, gpus_per_machine: int) -> int:
    """Stages that GPUs make up of which each has a machine; one where none do.

    >>> [fewest_stages(number, 1, 8) for number in (8, 12, 16, 17)]
    [1, 2, 2, 17]
    """
    stages = range(1, number // attention_dp + 1)
    return next((s for s in stages if number % (s * attention_dp) == 0 and number // s <= gpus_per_machine), 1)
