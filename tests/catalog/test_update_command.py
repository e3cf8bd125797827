"""`gpufleet catalog update` as it is typed."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.price_server import (
    Answer,
    PriceServer,
    ask_this_machine_alone,
    aws_pages,
    aws_row,
    every_feed,
    price_usd,
    serving,
    shipped,
)

from gpufleet.catalog.providers.every import FEEDS
from gpufleet.catalog.transport import Download, Unreachable
from gpufleet.catalog.update import unsuccessful
from gpufleet.cli import main
from gpufleet.report.catalog_update import update_page
from gpufleet.results.catalog_update import CatalogUpdate


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PriceServer]:
    with serving(PriceServer(every_feed())) as running:
        monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path))
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def test_all_clouds_are_refreshed_and_the_next_listing_shows_prices_of_today(
    server: PriceServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", "update"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("7 of 7 feeds brought new prices")
    assert max(map(len, page.splitlines())) <= 80 or "Snapshots are in" in page
    assert main(["catalog", "prices", "--instance", "p5.48xlarge", "--kind", "on_demand", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["source"] for row in rows} == {"aws-ec2-price-list"}


def test_a_failed_feed_is_exit_code_5_and_the_page_says_why_and_that_nothing_is_lost(
    server: PriceServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [lambda path, sound: Answer("gone", 404) if path.startswith("/azure") else None]
    assert main(["catalog", "update", "--cloud", "azure,lambda"]) == 5
    page = " ".join(capsys.readouterr().out.split())
    assert page.startswith("1 of 2 feeds brought new prices")
    assert "/azure answers 404" in page
    assert "Failed feeds changed nothing" in page


def test_the_result_is_json_too(server: PriceServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "update", "--cloud", "lambda", "-o", "json"]) == 0
    [feed] = json.loads(capsys.readouterr().out)["feeds"]
    assert (feed["status"], feed["num_vanished"]) == ("updated", 0)
    assert Path(feed["snapshot"], "offers.csv").exists()


def wrong_p5(server: PriceServer, factor: float) -> None:
    """The feed of AWS with p5.48xlarge at so many times its price."""
    east = [o for o in shipped("aws") if o.region == "us-east-1"]
    rows = [aws_row(o.instance, price_usd(o) * (factor if o.instance == "p5.48xlarge" else 1)) for o in east]
    server.pages |= aws_pages({"us-east-1": rows})


ASKED = ["--in", "1000", "--out", "200", "--clouds", "aws", "--gpus", "H100", "-o", "json"]
PLAN = ["plan", "serve", "llama-3.3-70b", "--rate", "5/s", *ASKED]


def test_a_price_that_waits_is_named_and_does_not_win(server: PriceServer, capsys: pytest.CaptureFixture[str]) -> None:
    wrong_p5(server, 1 / 1000)
    assert main(["catalog", "update", "--cloud", "aws"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "Not used until accepted aws p5.48xlarge on demand, us-east-1: $0.05504 is" in page
    assert "Until then the previous price stays in force, with its date" in page
    assert "If the price is right: gpufleet catalog update --accept aws:p5.48xlarge" in page
    assert main(PLAN) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["deployments"][0]["price_per_instance_usd_per_hour"] > 4
    assert [d["price_doubt"] for d in plan["deployments"]] == [""] * len(plan["deployments"])


@pytest.mark.parametrize("name", ["aws:p5.48xlarge", "p5.48xlarge", "all"])
def test_an_accepted_price_wins_and_the_plan_says_what_it_rests_on(
    server: PriceServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    wrong_p5(server, 1 / 8)
    assert main(["catalog", "update", "--cloud", "aws", "--accept", name]) == 0
    assert "Accepted; every plan that uses it says so" in capsys.readouterr().out
    assert main(PLAN) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["deployments"][0]["price_doubt"].endswith("; accepted on " + plan["deployments"][0]["price_as_of"])
    assert plan["notes"][0].startswith("Warning: aws p5.48xlarge (us-east-1, on demand) is in doubt: $6.88 is 0.12x")
    assert main(PLAN[:-2]) == 0
    headline, warning, *_ = capsys.readouterr().out.split("\n\n")
    assert ", in doubt: $" in " ".join(headline.split())
    assert warning.startswith("Warning: aws p5.48xlarge")
    assert main(["catalog", "prices", "--instance", "p5.48xlarge", "--kind", "on_demand"]) == 0
    assert "In doubt: aws p5.48xlarge on_demand: $6.88 is 0.12x" in " ".join(capsys.readouterr().out.split())


def test_a_name_to_accept_that_no_machine_has_is_refused_with_the_nearest(
    server: PriceServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", "update", "--accept", "aws:p5.48xlrge"]) == 2
    assert "p5.48xlarge" in capsys.readouterr().err
    assert server.asked == []


def test_a_cloud_without_a_public_feed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "update", "--cloud", "nebius"]) == 2
    assert "unknown cloud with a price feed 'nebius'" in capsys.readouterr().err


def test_without_httpx_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert main(["catalog", "update"]) == 2
    assert "gpu-fleet-optimizer[refresh]" in capsys.readouterr().err


def test_a_pipe_hears_of_every_feed_as_it_begins_and_as_it_ends(
    server: PriceServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [lambda path, sound: Answer("gone", 404) if path.startswith("/azure") else None]
    assert main(["catalog", "update"]) == 5
    lines = capsys.readouterr().err.splitlines()
    feeds = {line.partition(":")[0] for line in lines}
    assert {feed.name for feed in FEEDS} == feeds
    assert sum(line.endswith(": asked") for line in lines) == len(FEEDS)
    assert sum(": updated, " in line and line.endswith(" prices") for line in lines) == len(FEEDS) - 1
    assert any(line.startswith("azure-retail-prices: failed, ") for line in lines)


def test_a_name_without_an_address_is_asked_twice_and_not_five_times(tmp_path: Path) -> None:
    import httpx

    def offline(request: httpx.Request) -> httpx.Response:
        try:
            raise socket.gaierror(-2, "Name or service not known")
        except socket.gaierror as error:
            raise httpx.ConnectError(str(error)) from error

    waited: list[float] = []
    client = httpx.Client(transport=httpx.MockTransport(offline))
    with pytest.raises(Unreachable, match="failed 2 times, at last: ConnectError"):
        Download(tmp_path, client, waited.append).json("https://prices.example/feed")
    assert waited == [1.0]


def test_feeds_do_not_wait_for_each_other(server: PriceServer) -> None:
    """Every feed is asked before the first is answered."""
    reached = threading.Barrier(len(FEEDS), timeout=20)

    def wait_for_all(path: str, sound: Answer) -> Answer | None:
        top = re.split(r"[/?]", path)[1]
        if top not in met:
            met.add(top)
            reached.wait()
        return None

    met: set[str] = set()
    server.faults = [wait_for_all]
    assert main(["catalog", "update"]) == 0
    assert len(met) == len(FEEDS)
    assert not reached.broken, "a feed that was not asked in time left the others waiting"


def test_a_refresh_that_brought_nothing_does_not_speak_of_snapshots(
    server: PriceServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = [lambda path, sound: Answer("gone", 404)]
    assert main(["catalog", "update", "--cloud", "azure"]) == 5
    page = " ".join(capsys.readouterr().out.split())
    assert "Nothing was written to" in page
    assert "Snapshots lie" not in page


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_asked(
    server: PriceServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path / "file" / "prices"))
    assert main(["catalog", "update"]) == 2
    said = capsys.readouterr()
    assert "price snapshots cannot be written" in said.err
    assert "asked" not in said.err


def test_the_spot_feed_of_aws_says_what_it_is_wherever_it_was_asked() -> None:
    [feed] = [feed for feed in FEEDS if feed.name == "aws-ec2-spot"]
    asked, skipped = (
        update_page(CatalogUpdate(feeds=[unsuccessful(feed, status, "no answer")], root="here"))
        for status in ("failed", "skipped")
    )
    assert any("spot.js" in note and "2024" in note for note in asked.notes)
    assert not any("spot.js" in note for note in skipped.notes)
