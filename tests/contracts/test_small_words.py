"""What new users stumbled over: names, hints, limits and words of single answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.inputs.preferences import unknown_variables

SERVE = ["plan", "serve", "llama-3.1-8b", "--rate", "1/s", "--in", "100", "--out", "100"]


def test_variables_that_are_documented_are_no_strangers() -> None:
    known = {"GPUFLEET_PRICES": "/prices", "GPUFLEET_ENDPOINT_AZURE_RETAIL_PRICES": "http://mirror"}
    assert unknown_variables(known) == []
    assert unknown_variables({"GPUFLEET_PRICE": "x"}) == ["GPUFLEET_PRICE means nothing here; GPUFLEET_PRICES does."]


@pytest.mark.parametrize("name", ["A100-80GB", "a100", "A100-SXM4-80GB", "nvidia a100-sxm4-80gb"])
def test_an_own_machine_may_name_its_gpu_as_everybody_does(tmp_path: Path, name: str) -> None:
    table = f'[rack]\naccelerator = "{name}"\npurchase_usd = 15000\nyears = 4\npower_watts = 600\n'
    rest = "electricity_usd_per_kwh = 0.2\nas_of = 2026-10-01\n"
    (tmp_path / "owned.toml").write_text(table + rest, encoding="utf-8")
    assert load_catalog(tmp_path).instances["own", "rack"].accelerator == "A100-SXM4-80GB"


def test_a_folder_of_own_tables_that_is_not_there_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SERVE, "--catalog", "/no/such/folder"]) == 2
    assert "the folder of your own tables is not there" in capsys.readouterr().err


def test_an_age_of_prices_is_shown_in_days(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SERVE, "--max-age", "30"]) == 2
    said = capsys.readouterr().err
    assert "'30d'" in said
    assert "ms'" not in said


def test_a_limit_limits_what_has_no_price_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["catalog", "prices", "--gpu", "L40S", "--unpriced", "--limit", "3"]
    assert main(words) == 0
    page = capsys.readouterr().out
    assert sum(" unknown " in line for line in page.splitlines()) == 3
    assert main([*words, "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["unpriced"]) == 3


def test_models_show_kind_and_context_on_a_narrow_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["catalog", "models"]) == 0
    header = capsys.readouterr().out.splitlines()[2].split()
    assert {"kind", "context", "parameters"} <= set(header)


def test_one_place_is_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "regions", "--instance", "p5.48xlarge", "--region", "us-east-1"]) == 0
    assert capsys.readouterr().out.startswith("Sold in 1 place,")


@pytest.mark.parametrize("tokens", ["nan", "inf", "many"])
def test_what_is_no_count_is_told_that_a_positive_number_is_meant(
    capsys: pytest.CaptureFixture[str], tokens: str
) -> None:
    assert main(["plan", "serve", "llama-3.1-8b", "--rate", "1/s", "--in", tokens, "--out", "100"]) == 2
    said = capsys.readouterr().err
    assert "expected a positive number such as '1000' or '8k'" in said
    assert "unit" not in said
