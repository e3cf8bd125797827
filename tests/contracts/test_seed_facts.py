"""Hardware, prices and model sizes that the seeds state: equal to the tables of today, or recorded as differing."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from tools.seed_index import Element, all_elements

from gpufleet.api import estimate_encoder
from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import price_per_gpu_usd_per_hour
from gpufleet.compat import rules
from gpufleet.compat.classic.config import load_config
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.precision import BF16, PRECISIONS, WeightFormat
from gpufleet.units import GB, GIGA, TERA

CATALOG = load_catalog()
ELEMENTS = {element.id: element for element in all_elements()}
HOME_REGION = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}

PRICE_TODAY: dict[str, float | None] = {
    "p3.2xlarge": None,
    "p3.8xlarge": None,
    "p3.16xlarge": None,
    "p3dn.24xlarge": 31.212,
    "p4d.24xlarge": 21.957642,
    "n1-standard-4+T4": None,
    "n1-standard-8+V100": None,
    "a2-highgpu-8g": 29.38708,
    "Standard_NC6s_v3": None,
}
"""List price in the cloud's home region where it is not the seeds'; None: no price is held (retired, or not listed)."""

BANDWIDTH_TODAY = {"T4": 320}
FP16_DENSE_TODAY = {"A10G": 70}
NAME_IN_CATALOG = {
    "n1-standard-4 + T4": "n1-standard-4+T4",
    "n1-standard-8 + V100": "n1-standard-8+V100",
    "NC4as_T4_v3": "Standard_NC4as_T4_v3",
    "NC6s_v3": "Standard_NC6s_v3",
    "NC24ads_A100_v4": "Standard_NC24ads_A100_v4",
}
CORES_PER_SM = {"T4": (64, 8), "V100-SXM2-16GB": (64, 8), "A100-PCIe-40GB": (64, 4), "A100-PCIe-80GB": (64, 4),
                "H100-SXM": (128, 4)}  # fmt: skip
"""CUDA and tensor cores of a streaming multiprocessor, from the white papers of Turing, Volta, Ampere and Hopper."""

BULLET = re.compile(
    r"- `(?P<name>[\w.]+)` - (?P<gpus>\d)x (?P<gpu>\w+)(?: \((?P<gpu_gb>\d+)GB\))?, (?P<vcpus>\d+) vCPUs"
    r"(?:, (?P<ram>\d+)GB RAM)? - \**\$(?P<usd>[\d.]+)/hr"
)
TERRAFORM = re.compile(
    r'default = "(?P<name>[\w.]+)"  # (?P<gpus>\d)x (?P<gpu>\w+), (?P<vcpus>\d+) vCPUs(?:, (?P<ram>\d+)GB RAM)?$'
)


class StatedInstance(NamedTuple):
    """What a line of a seed says of a machine; None where it does not say."""

    id: str
    name: str
    gpus: int
    gpu: str
    vcpus: int | None
    memory_gb: float | None
    all_gpus_gb: float | None
    usd_per_hour: float | None


def cells(element: Element) -> list[str]:
    return [cell.strip().replace("*", "") for cell in element.text.strip("|").split("|")]


def number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


def from_table(line: int) -> StatedInstance:
    name, gpu, vcpus, ram, gpu_memory, usd, _ = cells(ELEMENTS[f"assessment:{line}"])
    kind, _, count = gpu.partition(" x")
    return StatedInstance(
        f"assessment:{line}", name, int(count), kind, int(vcpus), number(ram), number(gpu_memory), number(usd)
    )


def from_match(element: Element, match: re.Match[str]) -> StatedInstance:
    found = match.groupdict()
    return StatedInstance(
        element.id,
        found["name"],
        int(found["gpus"]),
        found["gpu"],
        int(found["vcpus"]),
        float(found["ram"]) if found["ram"] else None,
        int(found["gpus"]) * float(found["gpu_gb"]) if found.get("gpu_gb") else None,
        float(found["usd"]) if found.get("usd") else None,
    )


def from_quick_reference(line: int) -> StatedInstance:
    _, gpu, name, usd, _ = cells(ELEMENTS[f"selection:{line}"])
    gpus = 8 if name == "p4d.24xlarge" else 1
    return StatedInstance(f"selection:{line}", name, gpus, gpu.removeprefix("NVIDIA "), None, None, None, number(usd))


STATED = [
    *(from_table(line) for line in (*range(47, 52), *range(56, 60), *range(64, 67))),
    *(
        from_match(element, match)
        for element in ELEMENTS.values()
        if (match := BULLET.match(element.text) or TERRAFORM.match(element.text))
    ),
    *(from_quick_reference(line) for line in range(9, 15)),
]


def instance_named(name: str) -> Instance:
    wanted = NAME_IN_CATALOG.get(name, name)
    [found] = [instance for (_, known), instance in CATALOG.instances.items() if known == wanted]
    return found


def list_price(instance: Instance) -> float | None:
    home = (instance.cloud, HOME_REGION[instance.cloud], instance.name, PriceKind.ON_DEMAND)
    prices = [
        offer.price_per_instance_usd_per_hour
        for offer in CATALOG.offers
        if (offer.cloud, offer.region, offer.instance, offer.price_kind) == home
    ]
    return prices[0] if prices else None


def test_every_machine_that_the_seeds_describe_was_read() -> None:
    assert len(STATED) == 12 + 14 + 4 + 6
    assert len({stated.name for stated in STATED}) == 21


@pytest.mark.parametrize("stated", STATED, ids=lambda stated: f"{stated.id}-{stated.name}")
def test_a_machine_of_the_seeds_has_the_hardware_that_the_catalog_lists(stated: StatedInstance) -> None:
    instance = instance_named(stated.name)
    gpu = CATALOG.accelerators[instance.accelerator]
    assert instance.gpu_count == stated.gpus
    assert gpu.name.split("-")[0] == stated.gpu
    assert stated.vcpus in (None, instance.vcpus)
    assert stated.memory_gb in (None, instance.memory_gib)
    assert stated.all_gpus_gb in (None, instance.gpu_count * gpu.marketed_memory_gb)


@pytest.mark.parametrize(
    "stated", [s for s in STATED if s.usd_per_hour], ids=lambda stated: f"{stated.id}-{stated.name}"
)
def test_a_price_of_the_seeds_is_todays_list_price_or_recorded_as_another(stated: StatedInstance) -> None:
    instance = instance_named(stated.name)
    held = list_price(instance)
    if instance.name in PRICE_TODAY:
        assert held == PRICE_TODAY[instance.name]
        assert held != pytest.approx(stated.usd_per_hour, abs=0.005)
    else:
        assert held == pytest.approx(stated.usd_per_hour, abs=0.005), "to the cent that the seeds round to"


def test_p3_and_nc_v3_are_no_longer_started() -> None:
    retired = {name for name, price in PRICE_TODAY.items() if price is None and instance_named(name).retired}
    assert retired == {"p3.2xlarge", "p3.8xlarge", "p3.16xlarge", "Standard_NC6s_v3"}


GPU_OF_ROW = {36: "T4", 37: "V100-SXM2-16GB", 38: "A100-PCIe-40GB", 39: "A100-PCIe-80GB", 40: "H100-SXM"}


def row_of_gpu(line: int) -> tuple[Accelerator, list[str]]:
    return CATALOG.accelerators[GPU_OF_ROW[line]], cells(ELEMENTS[f"assessment:{line}"])


@pytest.mark.parametrize("line", GPU_OF_ROW)
def test_memory_bandwidth_and_cores_of_the_gpu_table(line: int) -> None:
    gpu, (_, vram, bandwidth, cuda_cores, tensor_cores, *_) = row_of_gpu(line)
    assert gpu.marketed_memory_gb in {float(size) for size in vram.removesuffix("GB").split("/")}
    assert gpu.bandwidth_bytes_per_s / GIGA == BANDWIDTH_TODAY.get(gpu.name, number(bandwidth.removesuffix("/s")))
    cuda_per_sm, tensor_per_sm = CORES_PER_SM[gpu.name]
    assert gpu.sm_count is not None
    assert (gpu.sm_count * cuda_per_sm, gpu.sm_count * tensor_per_sm) == (number(cuda_cores), number(tensor_cores))


@pytest.mark.parametrize(
    ("line", "gpu"), [(23, "T4"), (46, "A10G"), (70, "V100-SXM2-16GB"), (92, "A100-SXM4-40GB")], ids=str
)
def test_fp16_rates_of_the_families(line: int, gpu: str) -> None:
    text = ELEMENTS[f"selection:{line}"].text
    stated = float(re.search(r"(\d+) TFLOPS", text)[1])  # type: ignore[index]
    dense = CATALOG.accelerators[gpu].peak_flop_per_s["fp16"] / TERA
    assert dense == FP16_DENSE_TODAY.get(gpu, stated)


def test_the_a10g_is_hardly_faster_than_the_t4_in_dense_fp16() -> None:
    assert "2x faster than T4" in ELEMENTS["selection:46"].text
    rates = {gpu: CATALOG.accelerators[gpu].peak_flop_per_s["fp16"] for gpu in ("A10G", "T4")}
    assert rates["A10G"] / rates["T4"] == pytest.approx(70 / 65)


@pytest.mark.parametrize(("line", "gpu"), [(22, "T4"), (45, "A10G"), (69, "V100-SXM2-16GB"), (91, "A100-SXM4-40GB")])
def test_memory_of_the_families(line: int, gpu: str) -> None:
    stated = re.search(r"(\d+) GB", ELEMENTS[f"selection:{line}"].text)
    assert stated is not None
    assert CATALOG.accelerators[gpu].marketed_memory_gb == float(stated[1])


@pytest.mark.parametrize(("line", "gpu"), [(72, "V100-SXM2-16GB"), (94, "A100-SXM4-40GB")])
def test_nvlink_of_the_families_counts_both_directions(line: int, gpu: str) -> None:
    stated = re.search(r"(\d+) GB/s", ELEMENTS[f"selection:{line}"].text)
    one_way = CATALOG.accelerators[gpu].nvlink_bytes_per_s
    assert stated is not None
    assert one_way is not None
    assert 2 * one_way / GIGA == float(stated[1])


@pytest.mark.parametrize(
    ("fact", "model", "precision", "stated_gb"),
    [
        ("lesson:65", "llama-2-70b", "bf16", 140),
        ("lesson:172", "llama-2-7b", "bf16", 14),
        ("selection:430", "llama-2-7b", "bf16", 14),
        ("selection:431", "llama-2-13b", "bf16", 26),
    ],
)
def test_weights_of_named_models_are_as_heavy_as_stated(
    fact: str, model: str, precision: str, stated_gb: float
) -> None:
    assert f"{stated_gb}" in ELEMENTS[fact].text
    held = weights_bytes(shipped_architecture(model), WeightFormat.uniform(PRECISIONS[precision])) / GB
    assert held == pytest.approx(stated_gb, rel=0.05)


@pytest.mark.parametrize(
    ("line", "precision"), [(79, "fp32"), (80, "fp16"), (81, "bf16"), (82, "fp8"), (83, "int8")], ids=str
)
def test_a_precision_keeps_the_bytes_that_the_guide_states(line: int, precision: str) -> None:
    stated = re.search(r"(\d) bytes?/parameter", ELEMENTS[f"guide:{line}"].text)
    assert stated is not None
    assert int(PRECISIONS[precision].bytes_per_element) == int(stated[1])


def test_a_13b_model_takes_29_ms_through_900_gb_per_s_and_not_15() -> None:
    assert "~15ms just to load a 13B FP16 model" in ELEMENTS["lesson:174"].text
    read_s = weights_bytes(shipped_architecture("llama-2-13b"), WeightFormat.uniform(BF16)) / (900 * GIGA)
    assert read_s == pytest.approx(28.9e-3, rel=0.01)


def test_a_7b_model_trains_at_4e10_flop_a_token_and_not_1e21() -> None:
    assert "10^21 floating-point operations per training token" in ELEMENTS["lesson:61"].text
    assert 6 * num_parameters(shipped_architecture("llama-2-7b")) == pytest.approx(4.04e10, rel=0.01)


@pytest.mark.parametrize(
    ("line", "model", "is_in_category"),
    [
        (24, "gpt2", True),
        (25, "gpt2-large", False),
        (26, "gpt-j-6b", False),
        (26, "llama-7b", False),
        (27, "ft-gpt-175b", False),
    ],
)
def test_size_categories_and_the_models_that_they_name(line: int, model: str, is_in_category: bool) -> None:
    low, high = {24: (0, 1), 25: (1, 7), 26: (7, 20), 27: (20, 70)}[line]
    assert (low * GIGA <= num_parameters(shipped_architecture(model)) < high * GIGA) is is_in_category


@pytest.mark.parametrize("line", [24, 25, 26, 27])
def test_size_categories_count_two_and_four_bytes_a_parameter(line: int) -> None:
    _, parameters, fp16, fp32, _ = cells(ELEMENTS[f"assessment:{line}"])
    top_billion, top_fp16, top_fp32 = (number(text.split("-")[-1]) for text in (parameters, fp16, fp32))
    overhead = top_fp16 / (2 * top_billion)
    assert top_fp32 == 2 * top_fp16
    assert 1 <= overhead <= 2, "the seed adds up to as much again, less for larger models"


def test_the_tables_of_the_rules_are_those_of_the_seeds() -> None:
    sizes = [[cell for i, cell in enumerate(cells(ELEMENTS[f"assessment:{n}"])) if i != 1] for n in range(24, 29)]
    assert [[r.name, r.memory_fp16, r.memory_fp32, r.examples] for r in rules.SIZE_CATEGORIES] == sizes
    right = [cells(ELEMENTS[f"selection:{n}"]) for n in range(424, 432)]
    assert [(r.model, f"{r.least_vram_gb} GB", r.optimal_gpu) for r in rules.RIGHT_SIZES] == [
        tuple(r[:3]) for r in right
    ]
    overkill = [tuple(name for name in row[3].split(", ") if name.isascii()) for row in right]
    assert [row.overkill for row in rules.RIGHT_SIZES] == overkill


def test_the_quick_formulas_are_billions_times_bytes_over_gigabytes_and_six_times_that() -> None:
    ratio = r"\frac{\text{model\_parameters (billions)} \times \text{precision (bytes)}}{\text{gpu\_memory (GB)}} $$"
    assert ELEMENTS["computation:57"].text.endswith(rf"\approx {ratio}")
    assert ELEMENTS["computation:60"].text.endswith(rf"\approx 6 \times {ratio}")
    assert rules.gpus_for_inference(70, 2, 80) == 70 * 2 / 80
    assert rules.gpus_for_training(70, 2, 80) == 6 * 70 * 2 / 80
    parts = [number(ELEMENTS[f"computation:{line}"].text) for line in range(68, 72)]
    assert sum(parts) == rules.TRAINING_MULTIPLIER == 6


def on_demand_per_gpu(gpus: set[str]) -> list[float]:
    return [
        price_per_gpu_usd_per_hour(offer, CATALOG.instance_of(offer))
        for offer in CATALOG.offers
        if offer.price_kind is PriceKind.ON_DEMAND and CATALOG.instance_of(offer).accelerator in gpus
    ]


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        (36, {"T4"}),
        (37, {"V100-SXM2-16GB", "V100-SXM2-32GB"}),
        (38, {"A100-SXM4-40GB"}),
        (39, {"A100-SXM4-80GB", "A100-PCIe-80GB"}),
        (40, {"H100-SXM"}),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_list_prices_of_today_spread_wider_than_the_price_ranges_of_the_gpu_table(line: int, gpus: set[str]) -> None:
    low, high = (float(price) for price in re.findall(r"[\d.]+(?=-|/hr)", cells(ELEMENTS[f"assessment:{line}"])[5]))
    prices = on_demand_per_gpu(gpus)
    assert min(prices) < low or max(prices) > high


def test_whole_machines_cost_less_than_2_and_more_than_40_dollars_an_hour() -> None:
    assert "cost $2-40/hour" in ELEMENTS["lesson:73"].text
    prices = [o.price_per_instance_usd_per_hour for o in CATALOG.offers if o.price_kind is PriceKind.ON_DEMAND]
    assert min(prices) < 2
    assert max(prices) > 40


@pytest.mark.parametrize(("line", "cloud"), [(183, "aws"), (184, "gcp")])
def test_spot_savings_that_the_catalog_holds_reach_below_the_ranges_of_the_seed(line: int, cloud: str) -> None:
    low, high = (float(share) / 100 for share in re.findall(r"\d+", ELEMENTS[f"assessment:{line}"].text))
    on_demand = {
        (o.region, o.instance): o.price_per_instance_usd_per_hour
        for o in CATALOG.offers
        if (o.cloud, o.price_kind) == (cloud, PriceKind.ON_DEMAND)
    }
    savings = [
        1 - o.price_per_instance_usd_per_hour / on_demand[o.region, o.instance]
        for o in CATALOG.offers
        if (o.cloud, o.price_kind) == (cloud, PriceKind.SPOT) and (o.region, o.instance) in on_demand
    ]
    assert min(savings) < low
    assert low < max(savings) <= high


@pytest.mark.parametrize("line", [232, 233, 234, 235])
def test_one_request_at_a_time_cannot_be_answered_at_the_rates_of_the_inference_table(line: int) -> None:
    _, _, batch, latency, rate = cells(ELEMENTS[f"assessment:{line}"])
    assert batch == "1"
    in_flight = float(rate) * float(latency.removesuffix("ms")) / 1000
    assert in_flight > 10, "by Little's law: requests in flight = rate x latency"


def test_memory_of_today_is_faster_than_2_terabytes_a_second() -> None:
    assert "up to 2TB/s" in ELEMENTS["computation:13"].text
    assert "1-2TB/s" in ELEMENTS["computation:18"].text
    assert all(CATALOG.accelerators[g].bandwidth_bytes_per_s > 2 * TERA for g in ("H100-SXM", "H200-SXM", "B200"))


def test_tensor_cores_multiply_8_times_as_fast_on_a_v100_and_more_since() -> None:
    assert "up to 8x speedup" in ELEMENTS["computation:10"].text
    peaks = {gpu: CATALOG.accelerators[gpu].peak_flop_per_s for gpu in ("V100-SXM2-16GB", "A100-SXM4-40GB")}
    assert peaks["V100-SXM2-16GB"]["fp16"] / peaks["V100-SXM2-16GB"]["fp32"] == pytest.approx(8, rel=0.01)
    assert peaks["A100-SXM4-40GB"]["fp16"] / peaks["A100-SXM4-40GB"]["fp32"] == pytest.approx(16)


def test_the_datacenter_gpu_of_the_lesson_costs_more_for_each_result_than_the_consumer_gpu() -> None:
    assert "cost 5x more per hour but provide 4x+ throughput" in ELEMENTS["lesson:292"].text
    consumer, datacenter = rules.SEED_GPUS["consumer"], rules.SEED_GPUS["datacenter"]
    price, speed = datacenter.cost_per_hour / consumer.cost_per_hour, datacenter.fp16_tflops / consumer.fp16_tflops
    assert price == pytest.approx(5.33, abs=0.01)
    assert speed == pytest.approx(4.29, abs=0.01)


@pytest.mark.parametrize("key", ["G4dn", "G5", "G6", "G6e", "P4d", "P4de", "P5", "P6"])
def test_only_the_small_g_instances_of_the_guide_cost_on_demand_what_they_cost_today(key: str) -> None:
    row = load_config().instance(key)
    held = list_price(instance_named(row.stands_for))
    assert (held == pytest.approx(row.on_demand_cost_per_hour, abs=0.005)) is (key in {"G4dn", "G5", "G6"})


def test_no_price_of_a_p5e_is_held() -> None:
    assert list_price(instance_named(load_config().instance("P5e").stands_for)) is None


def test_a_b200_of_today_holds_180_gb_and_the_guides_192() -> None:
    assert load_config().instance("P6").gpu_memory_gb == 192
    assert CATALOG.accelerators["B200"].marketed_memory_gb == 180


def test_the_l40s_has_no_nvlink_and_its_machine_is_sold_with_eight_at_30_dollars() -> None:
    row = load_config().instance("G6e")
    assert "NVLink" in row.interconnect_type
    assert CATALOG.accelerators["L40S"].nvlink_bytes_per_s == 0
    assert instance_named(row.stands_for).gpu_count == row.gpus_per_instance == 8
    assert list_price(instance_named(row.stands_for)) == 30.13118


def test_2000_tflops_of_an_h100_are_sparse() -> None:
    dense = CATALOG.accelerators["H100-SXM"].peak_flop_per_s["bf16"] / TERA
    assert load_config().instance("P5").compute_tflops == pytest.approx(2 * dense, rel=0.02)


@pytest.mark.parametrize("model", ["whisper-tiny", "whisper-base", "whisper-small", "whisper-large-v3"])
def test_no_whisper_transcribes_a_window_on_a_t4_within_a_tenth_of_a_second(model: str) -> None:
    assert "<100ms inference time" in ELEMENTS["selection:256"].text
    alone = estimate_encoder(model, "T4", batch=1, beams=1, engine="faster-whisper", precision="fp16")
    assert alone.latency_s.low is not None
    assert alone.latency_s.low > 0.1
