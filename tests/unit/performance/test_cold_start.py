"""Laws of a start: what must hold whatever the figures are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog.cold_starts import load_cold_starts
from gpufleet.domain.cold_start import ColdStart, Compiled, EngineStart, ReplicaToStart, StartStage, Storage
from gpufleet.domain.interruption import Spread
from gpufleet.memory.band import Band
from gpufleet.performance.cold_start import IMAGE, MACHINE, WEIGHTS, cold_start, inverse, product, weights_s
from gpufleet.provenance import Grade, Sourced
from gpufleet.units import GBIT

FACTS = load_cold_starts()
STORAGES = st.sampled_from(sorted(FACTS.storages))
ENGINES = st.sampled_from([*sorted(FACTS.engines), "an engine that nobody timed"])
SIZES = st.floats(1e6, 3e12)
LINES = st.one_of(st.none(), st.floats(1e8, 1e12).map(lambda rate: Spread(rate / 2, rate, rate * 2)))


@st.composite
def replicas(draw: st.DrawFn) -> ReplicaToStart:
    machines = draw(st.integers(1, 4))
    return ReplicaToStart(
        weights_bytes=draw(SIZES),
        num_layers=draw(st.integers(1, 200)),
        num_devices=machines * draw(st.integers(1, 8)),
        num_machines=machines,
        warm_node=draw(st.booleans()),
        compiled=draw(st.sampled_from(Compiled)),
        line_bytes_per_s=draw(LINES),
    )


def started(replica: ReplicaToStart, engine: str = "vllm", storage: str = "local-nvme") -> ColdStart:
    return cold_start(replica, FACTS.engine(engine), FACTS.storages[storage], FACTS.node)


@given(replicas(), ENGINES, STORAGES)
def test_stages_add_up_and_their_range_is_no_wider_than_all_at_their_ends(
    replica: ReplicaToStart, engine: str, storage: str
) -> None:
    start = started(replica, engine, storage)
    assert start.seconds == pytest.approx(sum(stage.seconds for stage in start.stages))
    assert sum(stage.low_s for stage in start.stages) <= start.low_s * (1 + 1e-9)
    assert start.high_s <= sum(stage.high_s for stage in start.stages) * (1 + 1e-9)
    assert 0 < start.low_s <= start.seconds <= start.high_s
    assert start.grade == max(stage.grade for stage in start.stages)
    assert all(stage.source for stage in start.stages)


@given(replicas(), ENGINES, STORAGES)
def test_a_machine_that_runs_saves_its_own_stages_and_nothing_else(
    replica: ReplicaToStart, engine: str, storage: str
) -> None:
    cold = started(replace(replica, warm_node=False), engine, storage)
    warm = started(replace(replica, warm_node=True), engine, storage)
    assert cold.stages[2:] == warm.stages
    assert [stage.name for stage in cold.stages[:2]] == [MACHINE, IMAGE]
    assert warm.seconds < cold.seconds


@given(replicas(), SIZES, STORAGES)
def test_more_bytes_never_come_sooner(replica: ReplicaToStart, more: float, storage: str) -> None:
    larger = replace(replica, weights_bytes=replica.weights_bytes + more)
    assert started(replica, storage=storage).seconds <= started(larger, storage=storage).seconds


@given(replicas(), STORAGES)
def test_a_machine_more_with_as_many_devices_never_takes_longer(replica: ReplicaToStart, storage: str) -> None:
    wider = replace(replica, num_machines=replica.num_machines * 2, num_devices=replica.num_devices * 2)
    assert started(wider, storage=storage).seconds <= started(replica, storage=storage).seconds


@given(replicas())
def test_compiled_code_at_hand_is_between_none_at_all_and_nothing_to_compile(replica: ReplicaToStart) -> None:
    none, cached, fresh = (started(replace(replica, compiled=how)).seconds for how in (
        Compiled.NONE, Compiled.CACHED, Compiled.FRESH))  # fmt: skip
    assert none < cached < fresh


@given(replicas())
def test_an_engine_that_compiles_nothing_does_not_care(replica: ReplicaToStart) -> None:
    ways = {started(replace(replica, compiled=how), "sglang") for how in Compiled}
    assert len(ways) == 1


def test_ranks_of_one_machine_share_what_it_reads() -> None:
    """Eight ranks read eight parts at once, until the drives give no more."""
    one, two, eight = (
        weights_s(ReplicaToStart(140e9, 80, ranks), FACTS.storages["local-nvme"], FACTS.node).expected
        for ranks in (1, 2, 8)
    )
    assert one == pytest.approx(2 * two)
    assert eight == pytest.approx(140 / 8)


def test_a_fast_network_between_gpus_is_no_line_to_storage() -> None:
    """3.2 Tbit/s of InfiniBand bring no more than the 100 Gbit/s that were seen to carry weights."""
    streamed = FACTS.storages["object-store-streamed"]
    lines = [Spread(*(each * GBIT,) * 3) for each in (100, 3200)]
    took = [weights_s(ReplicaToStart(140e9, 80, 8, line_bytes_per_s=line), streamed, FACTS.node) for line in lines]
    assert took[0].expected == took[1].expected


def test_what_a_disk_is_known_to_give_replaces_the_usual() -> None:
    slow = started(ReplicaToStart(16e9, 32, storage_bytes_per_s=131e6), storage="network-disk")
    [weights] = [stage for stage in slow.stages if stage.name == WEIGHTS]
    assert weights.seconds == pytest.approx(16e9 / 131e6)
    assert weights.low_s == pytest.approx(weights.high_s)


@given(st.floats(0.1, 10), st.floats(0.1, 1), st.floats(1, 10))
def test_a_product_with_what_is_exact_keeps_the_range(factor: float, low: float, high: float) -> None:
    found = product(Band.exact(factor), Band(low, 1.0, high))
    assert (found.low, found.expected, found.high) == pytest.approx((factor * low, factor, factor * high))
    back = inverse(inverse(found))
    assert (back.low, back.high) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights_bytes": 0.0},
        {"weights_bytes": float("nan")},
        {"image_bytes": -1.0},
        {"storage_bytes_per_s": 0.0},
        {"num_machines": 2},
        {"num_devices": 0},
        {"num_layers": 0},
    ],
)
def test_nonsense_is_no_replica(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="replica to start"):
        replace(ReplicaToStart(1e9, 1), **wrong)


def test_half_described_facts_are_refused() -> None:
    rate = Sourced(1.0, "bytes/s", "a test")
    with pytest.raises(ValueError, match="not both"):
        Storage("shelf", "a shelf", rate, rate, None, Grade.MEASURED)
    with pytest.raises(ValueError, match="not both"):
        Storage("shelf", "a shelf", None, None, rate, Grade.MEASURED)
    with pytest.raises(ValueError, match="in part"):
        EngineStart("motor", rate, rate, None, None, rate, rate, Grade.MEASURED)
    with pytest.raises(ValueError, match="out of order"):
        StartStage("machine", 1.0, 2.0, 3.0, "a test", Grade.MEASURED)
