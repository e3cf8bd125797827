"""A region that a cloud sells in and that no price is held of: what is sold there, and how to add a price."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.errors import DataMissing

ASKED = ServeRequest("llama-3.1-8b", 5.0, 800, 200, clouds=("aws",), regions=("ap-northeast-3",), gpus=("H100", "L40S"))


def refused(**changes: object) -> str:
    with pytest.raises(DataMissing) as caught:
        plan_serve(replace(ASKED, **changes), load_catalog())  # type: ignore[arg-type]
    return str(caught.value)


def test_it_says_which_gpus_are_sold_there_and_where_the_others_are() -> None:
    said = refused()
    assert "at an unknown price: ap-northeast-3: L40S. Not sold there: H100-SXM (aws sells it in ap-" in said
    assert all(row.region != "ap-northeast-3" for row in load_catalog().availability if row.instance == "p5.48xlarge")


def test_without_a_named_gpu_all_that_are_sold_are_named() -> None:
    said = refused(gpus=None, regions=("ap-southeast-4",))
    assert "ap-southeast-4: Trainium1, Trainium2" in said
    assert "Not sold there" not in said


def test_where_nothing_of_it_is_sold_there_is_no_row_to_copy() -> None:
    said = refused(gpus=("H100",))
    assert "Not sold there: H100-SXM" in said
    assert "printf" not in said


def test_the_command_writes_a_table_with_which_the_question_has_an_answer(tmp_path: Path) -> None:
    said = refused()
    command = said[said.index("mkdir -p") : said.index(" (docs/prices.md)")].replace("PRICE,", "2.33,")
    assert shlex.split(command)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    answer = plan_serve(ASKED, load_catalog(tmp_path / "mine")).answer
    assert (answer.region, answer.gpu, answer.price_per_instance_usd_per_hour) == ("ap-northeast-3", "L40S", 2.33)


def own_price(folder: Path, place: str) -> Path:
    (folder / "offers").mkdir()
    row = f"aws,{place},on_demand,0,6.9,observed,your-tables,2026-11-01,\n"
    (folder / "offers" / "mine.csv").write_text(",".join(OFFER_COLUMNS) + "\n" + row, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("region", "is_listed"), [("eu-west-1", False), ("eu-north-1", True)])
def test_a_price_for_what_is_not_known_to_be_sold_there_counts_and_is_said(
    tmp_path: Path, region: str, is_listed: bool
) -> None:
    tables = load_catalog(own_price(tmp_path, f"{region},p5.4xlarge"))
    plan = plan_serve(replace(ASKED, regions=(region,)), tables)
    assert plan.answer.region == region
    said = f"aws does not list p5.4xlarge in {region} in the table of 2026-08-01; only your own price does"
    assert (said in plan.notes) != is_listed


def test_an_answer_that_does_not_rest_on_it_says_nothing(tmp_path: Path) -> None:
    tables = load_catalog(own_price(tmp_path, "eu-west-1,p5.4xlarge"))
    plan = plan_serve(replace(ASKED, regions=("us-east-1",)), tables)
    assert not [note for note in plan.notes if "does not list" in note]
