"""What replicas carry and cost at more and at less confidence: how late they are is scaled, not searched again."""

from __future__ import annotations

from gpufleet.optimize.size import Capacity, highest_rate


def sure_requests_per_s(found: Capacity, row: int) -> float:
    """The rate at which one replica keeps every limit at the confidence of the question   [1/s].

    Of what is bought, `Capacity.requests_per_s`, it is the part that is promised: the rest is headroom, as expected.
    """
    slower = 1.0 if found.caution is None else found.caution.tpot_ratio[[row]]
    strains = [strain[[row]] for strain in found.strains.values()]
    return float(highest_rate(strains, found.curves.requests_per_s[[row]] / slower)[2][0])
