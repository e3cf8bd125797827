"""The network between machines: published or assumed, and said which."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.machine_links import network_between
from gpufleet.catalog.network import network_of, network_of_gpu
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.domain.instance import Instance
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.provenance import Grade
from gpufleet.units import GBIT, GIGA

INSTANCES, GPUS = load_catalog().instances, load_catalog().accelerators


@pytest.mark.parametrize(
    ("cloud", "name", "gbit_per_s"),
    [
        ("aws", "p4d.24xlarge", 400),
        ("aws", "p4de.24xlarge", 400),
        ("aws", "p5.48xlarge", 3200),
        ("aws", "p5en.48xlarge", 3200),
        ("aws", "p6-b200.48xlarge", 3200),
        ("aws", "g6e.48xlarge", 400),
        ("aws", "g5.48xlarge", 100),
        ("azure", "Standard_ND96amsr_A100_v4", 1600),
        ("azure", "Standard_ND96isr_H100_v5", 3200),
        ("azure", "Standard_ND96isr_H200_v5", 3200),
        ("gcp", "a2-highgpu-8g", 100),
        ("gcp", "a3-highgpu-8g", 800),
        ("gcp", "a3-megagpu-8g", 1600),
        ("gcp", "a3-ultragpu-8g", 3200),
        ("gcp", "a4-highgpu-8g", 3200),
        ("nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb", 3200),
        ("oci", "BM.GPU4.8", 1600),
        ("oci", "BM.GPU.H100.8", 3200),
    ],
)
def test_what_clouds_publish_of_the_network_of_their_gpus(cloud: str, name: str, gbit_per_s: float) -> None:
    found = network_of(INSTANCES[cloud, name])
    assert found.is_known
    assert found.grade is Grade.MEASURED
    assert found.bytes_per_s.low == found.bytes_per_s.expected == found.bytes_per_s.high
    assert found.bytes_per_s.expected == pytest.approx(gbit_per_s * GIGA / 8)


@pytest.mark.parametrize(
    ("cloud", "name", "field"),
    [
        ("lambda", "gpu_8x_h100_sxm5", "network_switched_gbit_per_s"),
        ("oci", "BM.GPU.GB300.4", "network_switched_gbit_per_s"),
        ("lambda", "gpu_4x_a6000", "network_several_gbit_per_s"),
        ("runpod", "1x_H100-SXM_SECURE", "network_few_gbit_per_s"),
    ],
)
def test_what_is_not_published_is_assumed_and_graded_so(cloud: str, name: str, field: str) -> None:
    found, usual = network_of(INSTANCES[cloud, name]), getattr(load_training_runs(), field)
    assert not found.is_known
    assert found.grade is Grade.ROOFLINE
    assert found.source == usual.source
    assert found.bytes_per_s.low < found.bytes_per_s.expected < found.bytes_per_s.high
    assert found.bytes_per_s.expected == usual.value * GBIT


def test_what_is_assumed_is_not_far_from_published_machines_of_the_same_kind() -> None:
    """Four fifths of them lie within the range that is assumed of the rest."""
    known = [i for i in INSTANCES.values() if i.network_gbit_per_s and i.gpu_count >= 8 and i.fabric.is_switched]
    assert len(known) >= 28
    assert sum(holds(instance) for instance in known) >= 0.8 * len(known)


def holds(instance: Instance) -> bool:
    assumed = network_of(replace(instance, network_gbit_per_s=None)).bytes_per_s
    return assumed.low <= network_of(instance).bytes_per_s.expected <= assumed.high


@pytest.mark.parametrize(
    ("gpu", "gbit_per_s"), [("H100-SXM", 400), ("A100-SXM4-80GB", 200), ("L40S", 50), ("GB200", 400), ("A10", 25)]
)
def test_a_gpu_has_its_share_of_the_network_of_most_whole_machines(gpu: str, gbit_per_s: float) -> None:
    """The type of sixteen A100 on 100 Gbit/s does not speak for machines of eight, nor a rack's for its machines."""
    found = network_of_gpu(GPUS[gpu], INSTANCES.values())
    assert (found.is_known, found.bytes_per_s.expected) == (True, gbit_per_s * GBIT)


@pytest.mark.parametrize(
    ("gpu", "field"), [("MI355X", "network_switched_gbit_per_s"), ("RTX-4090", "network_several_gbit_per_s")]
)
def test_a_gpu_of_no_known_network_has_a_share_of_what_is_usual(gpu: str, field: str) -> None:
    found, usual = network_of_gpu(GPUS[gpu], INSTANCES.values()), getattr(load_training_runs(), field)
    assert (found.is_known, found.source) == (False, usual.source)
    assert found.bytes_per_s.expected == usual.value * GBIT / 8
    assert found.bytes_per_s.low < found.bytes_per_s.expected < found.bytes_per_s.high


def test_plans_of_pools_estimates_and_training_share_one_network() -> None:
    tables, gpu = load_catalog(), GPUS["MI325X"]
    of_gpu = network_of_gpu(gpu, INSTANCES.values())
    assert network_between(tables, gpu, None) == of_gpu
    assert usual_training_machine(gpu, of_gpu).network_bytes_per_s == of_gpu.bytes_per_s.expected * 8
    machine = INSTANCES["lambda", "gpu_8x_h100_sxm5"]
    assert network_between(tables, GPUS["H100-SXM"], "lambda:gpu_8x_h100_sxm5") == network_of(machine).share_of(8)
