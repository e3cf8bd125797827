"""What has no price is said by its name: the price kind, the day, or the place."""

from __future__ import annotations

import re
import subprocess
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
    assert note.startswith("No price of savings_plan is known: left out. Add rows to offers/*.csv")


@pytest.mark.slow
def test_a_batch_says_so_too() -> None:
    job = BatchRequest("llama-3.1-8b", 1e5, 1000, 200, deadline_s=86_400, pricing=("spot", "savings_plan"))
    assert any(note.startswith("No price of savings_plan is known") for note in plan_batch(job).notes)


def test_a_kind_that_is_held_for_other_places_only_is_not_called_unknown(tmp_path: Path) -> None:
    plan = plan_serve(replace(ASKED, pricing=("on_demand", "commit_1y"), clouds=("azure",)), quoted(tmp_path))
    [note] = [n for n in plan.notes if "No price" in n]
    assert note == "No price of commit_1y for these clouds: left out"


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"pricing": ("on_demand", "commit_1y")}, {"max_spot": 0.5}])
def test_kinds_that_are_held_and_kinds_that_nobody_named_need_no_word(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    plan = plan_serve(replace(ASKED, **changes), quoted(tmp_path))  # type: ignore[arg-type]
    assert not any("No price" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("changes", "said", "hint"),
    [
        (
            {"pricing": ("savings_plan",)},
            "no price of savings_plan is known",
            "on_demand, spot. To use your own quote for a whole",
        ),
        ({"pricing": ("owned",)}, "no price of owned is known", "owned.toml of your own tables"),
        ({"pricing": ("spot",), "clouds": ("lambda",)}, "no price of spot is known for these clouds", "on_demand."),
    ],
)
def test_alone_a_kind_without_a_price_is_an_error_that_names_it(
    changes: dict[str, object], said: str, hint: str
) -> None:
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, **changes))  # type: ignore[arg-type]
    assert str(refusal.value).startswith(said)
    assert hint in str(refusal.value)


def test_the_row_that_an_error_shows_can_be_copied_and_is_planned(tmp_path: Path) -> None:
    """A shell runs the command as it stands, with 60 % of the on-demand price where PRICE stands."""
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, pricing=("commit_3y",), clouds=("aws",), gpus=("L40S",)), load_catalog())
    command = re.search(r"mkdir -p mine/offers; printf .*quotes\.csv", str(refusal.value))
    assert command is not None
    cloud, region, instance = re.findall(r" (\w+),([\w-]+),([\w.]+),commit_3y,0,PRICE,", command[0])[0]
    listed = next(
        o for o in load_catalog().offers
        if (o.cloud, o.region, o.instance, o.price_kind.value) == (cloud, region, instance, "on_demand")
    )  # fmt: skip
    quote = f"{0.6 * listed.price_per_instance_usd_per_hour:.4f}"
    subprocess.run(["sh", "-c", command[0].replace("PRICE", quote)], cwd=tmp_path, check=True)
    asked = replace(ASKED, pricing=("commit_3y",), clouds=("aws",))
    plan = plan_serve(asked, load_catalog(tmp_path / "mine"))
    assert [(d.instance, d.price_kind) for d in plan.deployments] == [(instance, "commit_3y")]


@pytest.mark.parametrize(
    ("kind", "said"), [("commit_3y", "--pricing on_demand,commit_3y --prices -40%"), ("savings_plan", None)]
)
def test_a_rule_of_thumb_is_offered_as_a_question_where_there_is_one(kind: str, said: str | None) -> None:
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, pricing=(kind,), clouds=("aws",)))
    assert ("rule of thumb" in str(refusal.value)) == (said is not None)
    assert (said or "") in str(refusal.value)


def test_a_day_before_the_first_price_is_named_and_neither_region_nor_kind() -> None:
    day = date(2026, 6, 1)
    with pytest.raises(DataMissing) as refusal:
        plan_serve(replace(ASKED, clouds=("azure",), today=day), load_catalog(as_of=day))
    assert "No on_demand price of azure is dated up to 2026-06-01: the first here is of 2026-06-18" in str(
        refusal.value
    )


def test_a_cloud_whose_prices_came_later_is_named_beside_an_answer_of_others() -> None:
    day = date(2026, 6, 1)
    plan = plan_serve(replace(ASKED, clouds=("azure", "nebius"), today=day), load_catalog(as_of=day))
    assert {d.cloud for d in plan.deployments} == {"nebius"}
    assert "No on_demand price of azure is dated up to 2026-06-01: the first here is of 2026-06-18" in plan.notes
