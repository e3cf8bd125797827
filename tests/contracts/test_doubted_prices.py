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

import gpufleet
from gpufleet.answers.plan_parts import machines_of
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


FILE_VERBS = (
    ("autoscale", "{plan}", "--trace", "{rates}", "--policy", "static", "--documented", "--cold-start", "300s"),
    ("simulate", "{plan}", "--requests", "100"),
    ("compare", "{plan}", "{plan}"),
    ("spot", "{plan}", "--draws", "20", "--restart", "5min"),
)
L4_WITH = "aws,g6.xlarge,{gpu},1,4,16,none,,,,{network},250,current,aws-price-list,\n"


def other_machine(folder: Path, gpu: str = "L4", network: str = "10") -> Path:
    """A shipped machine type with other GPUs, or another network."""
    (folder / "instances").mkdir(parents=True)
    row = L4_WITH.format(gpu=gpu, network=network)
    (folder / "instances" / "aws.csv").write_text(",".join(INSTANCE_COLUMNS) + "\n" + row, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plan that was made with shipped tables, a day of rates, and a fleet of today."""
    folder = tmp_path_factory.mktemp("files")
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="6/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<2s", gpus="L4", clouds="aws"
    )
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "rates.csv").write_text("t_s,rate_rps\n" + "".join(f"{3600 * hour},4\n" for hour in range(24)))
    fleet = "fleet:\n  - {machines: 2 aws:g6.xlarge, runs: service, target: 99%}\n"
    (folder / "fleet.yaml").write_text(fleet)
    return {"plan": str(folder / "plan.json"), "rates": str(folder / "rates.csv"), "fleet": str(folder / "fleet.yaml")}


@pytest.mark.parametrize("words", FILE_VERBS, ids=lambda words: words[0])
def test_what_is_made_of_a_plan_file_says_that_its_machine_is_another_in_own_tables(
    words: tuple[str, ...], files: dict[str, str], tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = [word.format(**files) for word in words]
    instance = json.loads(Path(files["plan"]).read_text())["deployments"][0]["instance"]
    assert " is in doubt: " not in " ".join(ask(*typed).split())
    other = other_machine(tmp_path / "own", network="10000")
    table = other / "instances" / "aws.csv"
    shipped = load_catalog().instances["aws", instance]
    row = f"aws,{instance},L4,{shipped.gpu_count:g},{shipped.vcpus},{shipped.memory_gib},{shipped.fabric.kind},"
    rate = "" if shipped.fabric.bytes_per_s is None else f"{shipped.fabric.bytes_per_s / 1e9:g}"
    row += f"{rate},,measured,40000,{shipped.local_ssd_gb or 0:g},current,aws-price-list,\n"
    table.write_text(",".join(INSTANCE_COLUMNS) + "\n" + row, encoding="utf-8")
    monkeypatch.setenv("GPUFLEET_CATALOG", str(other))
    page = " ".join(ask(*typed).split())
    assert " is in doubt: " in page
    assert "says 40,000 Gbit/s of network, the shipped tables" in page


def test_a_fleet_on_spot_says_that_its_machine_is_another_in_own_tables(
    files: dict[str, str], tmp_path: Path, ask: Ask
) -> None:
    own = other_machine(tmp_path / "own", gpu="B200")
    page = " ".join(ask("spot", "--fleet", files["fleet"], "--draws", "20", "--catalog", str(own)).split())
    assert "Warning: " in page
    assert "says 1x B200, the shipped tables 1x L4" in page


def test_a_machine_of_ones_own_has_no_more_network_than_any_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    (tmp_path / "absurd").mkdir()
    assert not any(o.doubt for o in load_catalog(bargain(tmp_path / "sound", 24)).offers if o.cloud == "bargain")
    folder = bargain(tmp_path / "absurd", 24)
    table = folder / "instances" / "bargain.csv"
    table.write_text(table.read_text().replace(",100,,current", ",40000,,current"))
    assert all("40,000 Gbit/s" in o.doubt for o in load_catalog(folder).offers if o.cloud == "bargain")


@pytest.mark.parametrize(
    ("kind", "price", "is_doubted"),
    [
        ("spot", "0.25", False), ("on-demand", "0.70", False), ("owned", "0", False), ("owned", "0.1", False),
        ("on-demand", "0.001", True), ("on-demand", "0", True), ("spot", "0", True), ("spot", "170", True),
        ("on-demand", "170", True), ("owned", "170", True), ("owned", "0.0001", True),
    ],
)  # fmt: skip
def test_prices_of_a_schedule_are_weighed_as_those_of_tables_are(
    kind: str, price: str, is_doubted: bool, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.yaml"
    pool = f"pools: {{p: {{gpu: L4, gpus: 2, kind: {kind}, price: {price}/h}}}}\n"
    jobs.write_text(f"{pool}jobs: [{{name: a, work: 1h, deadline: 9h, preemptible: yes}}]\n")
    for plan in (gpufleet.plan_schedule(jobs, at_once=True), gpufleet.replay_schedule(jobs, online=["fifo"])):
        assert any("Warning: pool p: " in note for note in plan.notes) == is_doubted


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
