"""A price in doubt that wins is said in the headline and right below it, by every kind of plan and in every format."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY

from gpufleet.answers.rented import machines_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import INSTANCE_COLUMNS, OFFER_COLUMNS
from gpufleet.cli import main
from gpufleet.domain.offer import PriceKind

Ask = Callable[..., str]
BOX = "bargain,box,{gpu},8,96,1024,nvswitch,450,a rack,measured,100,,current,aws-price-list,\n"
FEW = "cloud,region,instance_type,price_kind,max_instances\nbargain,all,all,all,1\n"
SERVE = ("plan", "serve", "llama-3.3-70b", "--rate", "5/s", "--in", "1000", "--out", "300")
EVERY_PLAN = (
    SERVE,
    (*SERVE, "--max-spot", "0.5"),
    ("plan", "batch", "llama-3.1-8b", "--requests", "1000000", "--in", "1000", "--out", "200", "--deadline", "24h"),
    ("plan", "serve", "bge-base-en-v1.5", "--rate", "30000/s", "--in", "128"),
    ("plan", "batch", "bge-base-en-v1.5", "--requests", "100000000", "--in", "128", "--deadline", "24h"),
    ("plan", "serve", "--workload", str(REPOSITORY / "examples" / "three-models.yaml"), "--clouds", "bargain,nebius"),
)
MIX = ("plan", "serve", "llama-3.3-70b", "--rate", "40/s", "--in", "1000", "--out", "300", "--gpus", "H100-SXM")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    def asked(*words: str) -> str:
        monkeypatch.setenv("COLUMNS", "100")
        assert main([*words]) == 0
        return capsys.readouterr().out

    return asked


def bargain(folder: Path, usd_per_hour: float) -> Path:
    """A cloud of the user's own with H100s at that price a machine, on demand and on spot."""
    tables = {"instances": (INSTANCE_COLUMNS, [BOX.format(gpu="H100-SXM")])}
    offers = [
        f"bargain,lab,box,{kind},0,{usd_per_hour},observed,aws-price-list,2026-10-01,\n"
        for kind in ("on_demand", "spot")
    ]
    tables["offers"] = (OFFER_COLUMNS, offers)
    for name, (columns, rows) in tables.items():
        (folder / name).mkdir()
        (folder / name / "bargain.csv").write_text(",".join(columns) + "\n" + "".join(rows), encoding="utf-8")
    return folder


def first_screen(page: str) -> str:
    """The headline and the paragraph below it, without breaks of lines."""
    headline, below, *_ = page.split("\n\n")
    return " ".join(f"{headline}\n{below}".split())


@pytest.mark.parametrize("words", EVERY_PLAN, ids=lambda words: " ".join(words[1:4]))
@pytest.mark.parametrize("part", [30, 1000])
def test_a_cloud_at_a_small_part_of_what_others_ask_wins_with_a_warning(
    words: tuple[str, ...], part: float, tmp_path: Path, ask: Ask
) -> None:
    mine = ("--catalog", str(bargain(tmp_path, 24 / part)))
    screen = first_screen(ask(*words, *mine))
    assert ", in doubt" in screen.partition("Warning: ")[0]
    assert "Warning: bargain box (lab, " in screen
    assert "what other clouds ask per GPU." in screen
    written = json.loads(ask(*words, *mine, "-o", "json"))
    assert written["notes"][0].startswith("Warning: bargain box (lab, ")
    answer = (written.get("shared") or (written.get("plans") or [written])[0]["deployments"])[0]
    assert answer["price_doubt"].endswith("what other clouds ask per GPU")


def test_a_table_of_a_plan_says_which_rows_are_in_doubt(tmp_path: Path, ask: Ask) -> None:
    text = ask(*SERVE, "--catalog", str(bargain(tmp_path, 24 / 30)), "-o", "csv")
    rows = list(csv.DictReader(StringIO(text)))
    assert [bool(row["price_doubt"]) for row in rows] == [row["cloud"] == "bargain" for row in rows]


def test_two_offers_together_say_that_one_is_in_doubt(tmp_path: Path, ask: Ask) -> None:
    (bargain(tmp_path, 24 / 30) / "quotas.csv").write_text(FEW, encoding="utf-8")
    mine = ("--catalog", str(tmp_path), "--clouds", "bargain,nebius")
    mix = json.loads(ask(*MIX, *mine, "-o", "json"))
    assert any(part["deployment"]["price_doubt"] for part in mix["mix"]["parts"])
    page = " ".join(ask(*MIX, *mine).split())
    assert "of the requests, in doubt: $" in page
    assert "Warning: bargain box (lab, on demand) is in doubt" in page


def test_the_two_of_a_comparison_say_it_too(tmp_path: Path, ask: Ask) -> None:
    mine = ("--catalog", str(bargain(tmp_path, 24 / 30)))
    words = ("compare", "bargain:box", "L40S", "--model", "llama-3.1-8b", *SERVE[3:], *mine)
    assert "Warning: bargain box (lab, on demand) is in doubt" in " ".join(ask(*words).split())


def test_a_plan_that_is_made_again_says_it(tmp_path: Path, ask: Ask) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(ask(*SERVE, "-o", "json"), encoding="utf-8")
    (tmp_path / "mine").mkdir()
    page = " ".join(ask("explain", str(plan), "--catalog", str(bargain(tmp_path / "mine", 24 / 30))).split())
    assert "Warning: " in page
    assert "bargain box" in page.partition("Warning: ")[2].partition(" is in doubt: ")[0]


def test_a_price_in_doubt_that_does_not_win_is_no_warning(tmp_path: Path, ask: Ask) -> None:
    mine = ("--catalog", str(bargain(tmp_path, 24 * 20)), "--rows", "50")
    page = " ".join(ask(*SERVE, *mine).split())
    assert "Warning: " not in page
    assert ", in doubt" not in page


def test_shipped_prices_are_in_no_doubt(ask: Ask) -> None:
    plan = json.loads(ask(*SERVE, "-o", "json"))
    assert {d["price_doubt"] for d in plan["deployments"]} == {""}


def test_machines_beside_spot_bring_their_own_doubt() -> None:
    spot = next(o for o in load_catalog().offers if o.price_kind is PriceKind.SPOT)
    steady, machine = replace(spot, price_kind=PriceKind.ON_DEMAND), load_catalog().instance_of(spot)
    doubts = {
        machines_of(replace(spot, doubt=first), machine, 2, replace(steady, doubt=second))["price_doubt"]
        for first, second in (("", "dear"), ("dear", "dear"))
    }
    assert doubts == {"dear"}
    both = machines_of(replace(spot, doubt="cheap"), machine, 2, replace(steady, doubt="dear"))
    assert both["price_doubt"] == "cheap; dear"
