"""Whatever stands in a cell of one's own tables, the answer is a row or one clear sentence, never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_machines import OWNED_KEYS, own_machine
from gpufleet.catalog.own_terms import (
    BILL_COLUMNS,
    CONTRACT_COLUMNS,
    FOREIGN_COLUMNS,
    GPU_QUOTA_COLUMNS,
    QUOTA_COLUMNS,
    RATE_COLUMNS,
    ExchangeRate,
    ForeignOffer,
    bill_line_from,
    contract_from,
    exchanged,
    foreign_offer_from,
    gpu_quota_from,
    quota_from,
    rate_from,
)
from gpufleet.catalog.schema import (
    DISCOUNT_COLUMNS,
    OFFER_COLUMNS,
    SHIPPED_AVAILABILITY_COLUMNS,
    Place,
    availability_from,
    offer_from,
    typical_discount_from,
)
from gpufleet.errors import GpufleetError

PLACE = Place("own.csv", "line 2")
TODAY = date(2026, 11, 21)
CASES = 1500
SOUND = {
    "cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge", "price_kind": "on_demand",
    "discount_ratio": "0.3", "source_id": "your-tables", "as_of": "2026-10-01", "max_instances": "3",
    "currency": "EUR", "usd_per_unit": "1.1", "line": "disk", "quantity": "5", "quantity_per": "instance",
    "unit": "GiB", "unit_usd": "0.1", "upfront": "0", "price_per_instance_per_hour": "60", "basis": "list",
    "gpu": "H100", "max_gpus": "16",
    "interruption": "", "upfront_usd": "0", "price_per_instance_usd_per_hour": "55", "num_zones": "2", "zones": "a b",
    "sold_as": "on_demand spot", "saving_low_ratio": "0.4", "saving_high_ratio": "0.6", "evidence": "",
}  # fmt: skip
MEAN = ("", "0", "-1", "nan", "inf", "1e999", "1e-320", "1e308", "true", "２", "1_0", "0x10", "\x00", "all", "ALL",
        "commit_1y", "owned", "9999-12-31", "0001-01-01", "10000-01-01", "2026-02-30", "a" * 10_000, "=1+1", "🦙",
        "'; DROP", "null", "None", "[]", "USD", "usd", " 1", "1,5")  # fmt: skip
READERS: dict[str, tuple[tuple[str, ...], Callable[[Place, Mapping[str, str]], object]]] = {
    "contracts": (CONTRACT_COLUMNS, contract_from),
    "quotas": (QUOTA_COLUMNS, quota_from),
    "quotas of GPUs": (GPU_QUOTA_COLUMNS, gpu_quota_from),
    "rates": (RATE_COLUMNS, rate_from),
    "bill": (BILL_COLUMNS, bill_line_from),
    "foreign": (FOREIGN_COLUMNS, foreign_offer_from),
    "offers": ((*OFFER_COLUMNS, "max_instances", "currency"), offer_from),
    "availability": (SHIPPED_AVAILABILITY_COLUMNS, availability_from),
    "discounts": (DISCOUNT_COLUMNS, typical_discount_from),
}
OWNED: dict[str, Any] = {
    "accelerator": "RTX-4090", "gpu_count": 2, "link_kind": "pcie", "link_gb_per_s_per_direction": 16,
    "purchase_usd": 7000, "years": 3, "power_watts": 1000, "electricity_usd_per_kwh": 0.3, "as_of": "2026-10-01",
}  # fmt: skip


def read_or_refused(read: Callable[[], object]) -> object:
    said = ""
    found: object = None
    try:
        found = read()
    except GpufleetError as refusal:
        said = str(refusal)
    assert "\n" not in said
    return found


@pytest.mark.parametrize("kind", READERS)
def test_a_row_of_mean_cells_is_a_row_or_a_sentence(kind: str) -> None:
    columns, read = READERS[kind]
    chance = random.Random(kind)
    taken = 0
    for _ in range(CASES):
        row = {name: SOUND[name] for name in columns}
        for name in chance.sample(columns, chance.randint(1, 2)):
            row[name] = chance.choice(MEAN)
        found = read_or_refused(lambda row=row: read(PLACE, row))  # type: ignore[misc]
        taken += found is not None
        if isinstance(found, ForeignOffer):
            rate = ExchangeRate(found.currency, chance.choice((1.1, 1e308, 1e-320)), "your-tables", found.as_of)
            read_or_refused(lambda f=found, r=rate: exchanged([f], {f.currency: r}))  # type: ignore[misc]
    assert 0 < taken < CASES


def test_an_own_machine_of_mean_values_is_a_machine_or_a_sentence() -> None:
    chance = random.Random(7)
    values: tuple[Any, ...] = (*MEAN, 0, -1, 1e308, 1e-320, True, None, [], {}, [1], {"a": 1}, float("nan"), 2**70)
    taken = 0
    for _ in range(CASES * 2):
        table = {**OWNED, **{key: chance.choice(values) for key in chance.sample(sorted(OWNED_KEYS), 2)}}
        taken += read_or_refused(lambda table=table: own_machine(PLACE, "box", table, "your-tables", TODAY)) is not None  # type: ignore[misc]
    assert 0 < taken < CASES * 2


@pytest.mark.parametrize(
    "name",
    [
        "contracts.csv",
        "quotas.csv",
        "gpu_quotas.csv",
        "exchange_rates.csv",
        "bill_lines.csv",
        "foreign_offers/x.csv",
        "owned.toml",
    ],
)
@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"\x00" * 100, b'"', b",,,\n,,,,,\n", b"[a]\nb = \n", b"{}", b"cloud," + b"x" * 200_000],
    ids=["empty", "binary", "NUL", "quote", "commas", "broken TOML", "braces", "endless cell"],
)
def test_a_file_that_is_no_table_is_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    read_or_refused(lambda: load_catalog(tmp_path))


@pytest.mark.parametrize("price", ["1e300", "1e-300", "1e16"])
def test_a_price_that_nobody_means_is_refused_with_its_place(price: str) -> None:
    with pytest.raises(GpufleetError, match=r"own\.csv line 2: cannot read price_per_instance_usd_per_hour.*1e"):
        offer_from(PLACE, {**{c: SOUND[c] for c in OFFER_COLUMNS}, "price_per_instance_usd_per_hour": price})
