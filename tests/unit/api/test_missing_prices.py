"""What has no price is said by its name: the price kind, the day, or the place."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api import BatchRequest, ServeRequest, plan_batch, plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import DataMissing

ASKED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms")
FOUR = ("on_demand", "spot", "savings_plan", "commit_1y")
QUOTE = "aws,us-east-1,p4d.24xlarge,commit_1y,0,15.80,observed,your-tables,2026-10-01,\n"


def quoted(directory: Path) -> Catalog:
    (directory / "offers").mkdir()
    (directory / "offers" / "quotes.csv").write_text(",".join(OFFER_COLUMNS) + "\n" + QUOTE, encoding="utf-8")
    return load_catalog(directory, date(2026, 11, 21))


def test_kinds_without_a_price_are_named_beside_an_answer_with_the_way_to_add_one() -> None:
    [note] = [n for n in plan_serve(replace(ASKED, pricing=FOUR)).notes if "No price" in n]
    assert note.startswith("No price is held of savings_plan, commit_1y: left out. Add rows to offers/*.csv")


def test_a_batch_says_so_too() -> None:
    job = BatchRequest("llama-3.1-8b", 1e5, 1000, 200, deadline_s=86_400, pricing=("spot", "flex_start"))
    assert any(note.startswith("No price is held of flex_start") for note in plan_batch(job).notes)


def test_a_kind_that_is_held_for_other_places_only_is_not_called_unknown(tmp_path: Path) -> None:
    plan = plan_serve(replace(ASKED, pricing=("on_demand", "commit_1y"), clouds=("gcp",)), quoted(tmp_path))
    [note] = [n for n in plan.notes if "No price" in n]
    assert note == "No price of commit_1y under these clouds: left out"


@pytest.mark.parametrize("changes", [{}, {"pricing": ("on_demand", "commit_1y")}, {"max_spot": 0.5}])
def test_kinds_that_are_held_and_kinds_that_nobody_named_need_no_word(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    plan = plan_serve(replace(ASKED, **changes), quoted(tmp_path))  # type: ignore[arg-type]
    assert not any("No price" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("changes", "said", "hint"),
    [
        ({"pricing": ("commit_1y",)}, "no price is held of commit_1y", "on_demand, spot. Add rows to offers/"),
        ({"pricing": ("owned",)}, "no price is held of owned", "Add your machines to owned.toml"),
        ({"pricing": ("spot",), "clouds": ("nebius",)}, "no price is held of spot under these clouds", "on_demand."),
    ],
)
def test_alone_a_kind_without_a_price_is_an_error_that_names_it(
    changes: dict[str, object], said: str, hint: str
) -> None:
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, **changes))  # type: ignore[arg-type]
    assert str(refusal.value).startswith(said)
    assert hint in str(refusal.value)


def test_a_day_before_the_first_price_is_named_and_neither_region_nor_kind() -> None:
    day = date(2026, 7, 1)
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, clouds=("aws",), today=day), load_catalog(as_of=day))
    assert "No on_demand price of aws is dated up to 2026-07-01: the first here is of 2026-07-20" in str(refusal.value)


def test_a_cloud_whose_prices_came_later_is_named_beside_an_answer_of_others() -> None:
    day = date(2026, 7, 1)
    plan = plan_serve(replace(ASKED, clouds=("aws", "nebius"), today=day), load_catalog(as_of=day))
    assert {d.cloud for d in plan.deployments} == {"nebius"}
    assert "No on_demand price of aws is dated up to 2026-07-01: the first here is of 2026-07-20" in plan.notes
