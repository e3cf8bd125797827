"""What arrivals find: others that run, and prompts that share their step."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.performance.arrivals import finds_others, share_of_others
from gpufleet.performance.queueing import gated_wait_s, mean_wait_s


@pytest.mark.parametrize("batch", [0.01, 0.5, 3.0, 40.0])
def test_what_arrivals_find_is_a_poisson_count(batch: float) -> None:
    others = np.random.default_rng(5).poisson(batch, 400_000)
    assert finds_others(batch) == pytest.approx((others > 0).mean(), rel=0.02)
    assert share_of_others(batch) == pytest.approx((others / (others + 1)).mean(), rel=0.02)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("step_s", [0.0, 0.02])
def test_prompts_that_share_steps_wait_as_they_do_when_drawn(load: float, step_s: float) -> None:
    """Steps one after the other, each a decode step and the prompts that came in the last one."""
    service_s, dice = 0.05, np.random.default_rng(11)
    if step_s == 0:
        assert gated_wait_s(load, step_s, service_s) >= mean_wait_s(load, service_s)
        return
    waits, length, num_steps = [], step_s, 60_000
    for _ in range(num_steps):
        arrivals = dice.poisson(load / service_s * length)
        own = step_s + arrivals * service_s
        if arrivals:
            waits.append(arrivals * (length / 2 + own - step_s - service_s))
        length = own
    total = load / service_s * num_steps * step_s / (1 - load)
    assert gated_wait_s(load, step_s, service_s) == pytest.approx(sum(waits) / total, rel=0.05)


def test_an_idle_server_of_steps_makes_wait_for_half_a_step() -> None:
    assert gated_wait_s(0.0, 0.02, 0.1) == pytest.approx(0.01)
