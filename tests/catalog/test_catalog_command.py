"""`gpufleet catalog` as it is typed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.cli import main


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["catalog", *words]) == 0
    return capsys.readouterr().out


def csv_rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer(capsys, *words, "-o", "csv"))))


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["catalog", *words]) == 2
    return capsys.readouterr().err


def test_gpus_show_the_memory_that_drivers_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert "44.7 GiB" in answer(capsys, "gpus", "--gpu", "L40S")


def test_a_short_gpu_name_is_completed_in_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert "h100 read as H100-SXM" in answer(capsys, "gpus", "--gpu", "h100")


def test_cards_that_miss_the_memory_by_marketing_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "gpus", "--min-memory", "80GiB")
    assert "B200" in text
    assert "H100-SXM (79.6 GiB)" in " ".join(text.split())


def test_eighty_decimal_gigabytes_include_the_h100(capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["name"] for row in csv_rows(capsys, "gpus", "--min-memory", "80GB")}
    assert {"H100-SXM", "A100-SXM4-80GB"} <= names
    assert "L40S" not in names


def test_precision_keeps_the_gpus_that_compute_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["name"] for row in csv_rows(capsys, "gpus", "--precision", "fp8", "--vendor", "nvidia")}
    assert {"H100-SXM", "L4"} <= names
    assert not {"A100-SXM4-80GB", "T4"} & names


def test_prices_stand_per_instance_and_per_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    [row] = csv_rows(capsys, "prices", "--instance", "g6e.12xlarge", "--kind", "on-demand", "--region", "us-east-1")
    assert float(row["price_per_instance_usd_per_hour"]) == 10.49264
    assert float(row["price_per_gpu_usd_per_hour"]) == pytest.approx(10.49264 / 4)
    assert (row["source"], row["as_of"]) == ("aws-price-list", "2026-07-20")


def test_the_date_of_a_price_list_is_in_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert "2026-07-20" in answer(capsys, "prices", "--instance", "g6e.12xlarge", "--region", "us-east-1")


def test_an_estimated_price_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "prices", "--instance", "g6e.xlarge", "--kind", "spot", "--region", "us-east-1")
    assert "~$0.7" in text
    assert "estimate" in text


def test_an_unknown_price_is_called_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "prices", "--instance", "a3-ultragpu-8g", "--unpriced")
    assert "No price is known" in text
    assert "unknown" in text
    assert "$0" not in text


def test_prices_come_cheapest_first_and_can_be_turned_round(capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv_rows(capsys, "prices", "--gpu", "H100")
    dearest = csv_rows(capsys, "prices", "--gpu", "H100", "--sort", "-gpu-price", "--limit", "1")
    per_gpu = [float(row["price_per_gpu_usd_per_hour"]) for row in rows]
    assert per_gpu == sorted(per_gpu)
    assert float(dearest[0]["price_per_gpu_usd_per_hour"]) == per_gpu[-1]


def test_a_long_listing_is_cut_on_the_page_and_says_so_but_not_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert "more: --limit" in answer(capsys, "prices")
    assert len(csv_rows(capsys, "prices")) > 1000


def test_json_holds_base_units_sources_and_a_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    listing = json.loads(answer(capsys, "gpus", "--gpu", "L40S", "-o", "json"))
    [row] = listing["rows"]
    assert listing["schema_version"]
    assert row["memory_bytes"] == 45776 * 2**20
    assert row["source"] in {source["id"] for source in listing["sources"]}


def test_an_instance_without_a_gpu_count_is_listed_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "instances", "--cloud", "azure", "--gpu", "RTX-PRO-6000")
    assert "unknown" in text


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp", "lambda", "nebius", "runpod", "verda"])
def test_no_name_of_a_complete_machine_is_cut_short_on_the_page(capsys: pytest.CaptureFixture[str], cloud: str) -> None:
    lines = answer(capsys, "instances", "--cloud", cloud).splitlines()
    assert [line for line in lines if "…" in line and "unknown  unknown  unknown" not in line] == []


def test_a_retired_machine_is_called_retired(capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "instances", "--cloud", "aws", "--gpu", "V100").splitlines()
    [line] = [line for line in lines if "p3.2xlarge" in line]
    assert line.count("retired") == 2


@pytest.mark.parametrize("words", [["gpus"], ["instances"], ["prices"], ["prices", "--cloud", "azure"]])
def test_no_line_is_wider_than_eighty_columns(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert max(map(len, answer(capsys, *words).splitlines())) <= 80


@pytest.mark.parametrize("command", ["gpus", "instances", "prices"])
def test_markdown_is_a_table(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert "| ---" in answer(capsys, command, "--gpu", "L40S", "-o", "md")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gpus", "--gpu", "H1000"], "unknown GPU 'H1000'"),
        (["gpus", "--vendor", "nvidya"], "nvidia"),
        (["gpus", "--min-memory", "80"], "80GiB"),
        (["gpus", "--min-memory", "nan"], "size in bytes"),
        (["gpus", "--precision", "fp7"], "unknown precision"),
        (["gpus", "--sort", "beauty"], "unknown order"),
        (["gpus", "--gpu", ","], "an empty name"),
        (["prices", "--region", "us-esat-1"], "us-east-1"),
        (["prices", "--kind", "spott"], "spot"),
        (["prices", "--instance", "p5.48xlarg"], "p5.48xlarge"),
        (["instances", "--cloud", "gpc"], "gcp"),
        (["prices", "--limit", "0"], "limit"),
        (["instances", "--min-gpus", "nan"], "positive"),
        (["instances", "--min-gpus", "-1"], "positive"),
    ],
)
def test_a_wrong_word_is_answered_with_what_was_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    message = complaint(capsys, *words)
    assert expected in message
    assert message.count("\n") == 1


def test_models_show_exact_parameters_and_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    [row] = json.loads(answer(capsys, "models", "--search", "meta-llama/Llama-3.3-70B", "-o", "json"))["rows"]
    assert row["name"] == "llama-3.3-70b"
    assert row["num_parameters"] == 70_553_706_496
    assert row["num_active_parameters"] == row["num_parameters"]


def test_models_by_family_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv_rows(capsys, "models", "--family", "llama", "--sort", "-parameters")
    sizes = [int(row["num_parameters"]) for row in rows]
    assert len(sizes) > 5
    assert sizes == sorted(sizes, reverse=True)
    assert {row["family"] for row in rows} == {"llama"}


def test_a_box_and_a_contract_of_ones_own_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    offers = tmp_path / "offers"
    offers.mkdir()
    row = "aws,us-east-1,p5.48xlarge,commit_1y,8760,30,observed,aws-price-list,2026-10-01,"
    (offers / "contract.csv").write_text(",".join(OFFER_COLUMNS) + "\n" + row + "\n", encoding="utf-8")
    words = ("prices", "--kind", "commit_1y", "--instance", "p5.48xlarge", "--catalog", str(tmp_path))
    [found] = csv_rows(capsys, *words)
    assert (float(found["price_per_instance_usd_per_hour"]), float(found["upfront_usd"])) == (30, 8760)


def test_an_unknown_family_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "llama" in complaint(capsys, "models", "--family", "lama")


@pytest.mark.parametrize("listing", ["gpus", "instances", "prices"])
def test_only_the_sources_of_the_rows_that_are_shown_are_named(
    capsys: pytest.CaptureFixture[str], listing: str
) -> None:
    shown = json.loads(answer(capsys, listing, "--limit", "3", "-o", "json"))
    named = {row["source"] for row in shown["rows"]} | {
        row["cheapest"]["source"] for row in shown["rows"] if row.get("cheapest")
    }
    assert {source["id"] for source in shown["sources"]} == named
    assert len(shown["rows"]) == 3
