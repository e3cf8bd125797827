"""A user's tables of the same names add to the shipped ones or replace their rows; faults are named by place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog import table_rows
from gpufleet.catalog.load import OVERLAY_VARIABLE, load_catalog
from gpufleet.catalog.query import price_per_gpu_usd_per_hour
from gpufleet.catalog.schema import INSTANCE_COLUMNS, OFFER_COLUMNS, Place, offer_from
from gpufleet.catalog.table_files import rows_of, tables_of
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError

TODAY = date(2026, 11, 21)
OFFERS, INSTANCES = ",".join(OFFER_COLUMNS) + "\n", ",".join(INSTANCE_COLUMNS) + "\n"
OWNED = "home,lab,box-8,owned,0,4.50,observed,our-books,2026-10-01,\n"
P5_CONTRACT = "aws,us-east-1,p5.48xlarge,on_demand,0,40,observed,our-books,2026-10-01,\n"
BOX = "home,box-8,H100-SXM,8,96,1024,nvswitch,450,our rack,measured,100,,current,our-books,\n"


def write(directory: Path, name: str, *lines: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    write(tmp_path, "sources.toml", '[our-books]\ntitle = "Our books"\nas_of = 2026-10-01\n')
    write(tmp_path, "instances/home.csv", INSTANCES, BOX)
    write(tmp_path, "offers/home/2026-10-01.csv", OFFERS, OWNED, P5_CONTRACT)
    return tmp_path


def test_own_machines_and_prices_join_the_shipped_ones(overlay: Path) -> None:
    catalog = load_catalog(overlay, TODAY)
    assert catalog.instances["home", "box-8"].gpu_count == 8
    assert [o.price_kind for o in catalog.offers if o.cloud == "home"] == [PriceKind.OWNED]
    assert len(catalog.accelerators) == len(load_catalog().accelerators)


def test_an_own_price_replaces_the_list_price_of_the_same_place(overlay: Path) -> None:
    key = ("aws", "us-east-1", "p5.48xlarge", PriceKind.ON_DEMAND)
    offers = [o for o in load_catalog(overlay, TODAY).offers if (o.cloud, o.region, o.instance, o.price_kind) == key]
    assert [o.price_per_instance_usd_per_hour for o in offers] == [40.0]


def test_every_own_price_is_read_once(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Offer] = []

    def reading(place: Place, row: Mapping[str, str]) -> Offer:
        read.append(offer_from(place, row))
        return read[-1]

    monkeypatch.setattr(table_rows, "offer_from", reading)
    load_catalog(overlay, TODAY)
    assert sorted(o.instance for o in read if o.source == "our-books") == ["box-8", "p5.48xlarge"]


def test_the_environment_may_name_the_overlay(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAY_VARIABLE, str(overlay))
    assert ("home", "box-8") in load_catalog(today=TODAY).instances


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("offers/x.csv", (OFFERS, P5_CONTRACT), "no source 'our-books'"),
        ("offers/x.csv", (OFFERS, OWNED.replace("our-books", "aws-price-list")), "no such complete instance"),
        ("instances/x.csv", (INSTANCES, BOX.replace("H100-SXM", "H100-XXL")), "no accelerator 'H100-XXL'"),
        ("gpu_aliases.toml", ('best = "H1000"\n',), "no accelerator 'H1000'"),
    ],
)
def test_a_row_that_names_what_no_table_holds_is_refused(
    tmp_path: Path, name: str, lines: tuple[str, ...], message: str
) -> None:
    write(tmp_path, name, *lines)
    with pytest.raises(UsageError, match=message):
        load_catalog(tmp_path, TODAY)


def test_an_own_gpu_is_described_in_toml(tmp_path: Path) -> None:
    table = 'vendor = "nvidia"\ngeneration = "Hopper"\nmemory_mib_reported = 65536\nmarketed_memory_gb = 64\n'
    rates = 'bandwidth_gb_per_s = 2000\nbf16_dense_tflop_per_s = 700\nsource_id = "nvidia-h100-datasheet"\n'
    write(tmp_path, "accelerators/own.toml", "[H64]\n", table, rates)
    gpu = load_catalog(tmp_path, TODAY).accelerators["H64"]
    assert gpu.memory_bytes == 64 * 2**30
    assert not gpu.computes("fp8")


@pytest.mark.parametrize("peak", ["0", "-1", '""', "1e300"])
def test_a_peak_that_is_no_peak_is_named_by_table_and_key(tmp_path: Path, peak: str) -> None:
    table = 'vendor = "nvidia"\ngeneration = "Hopper"\nmemory_mib_reported = 65536\nmarketed_memory_gb = 64\n'
    rates = f'bandwidth_gb_per_s = 2000\nfp16_dense_tflop_per_s = {peak}\nsource_id = "nvidia-h100-datasheet"\n'
    write(tmp_path, "accelerators/own.toml", "[H64]\n", table, rates)
    with pytest.raises(UsageError, match=r"own\.toml \[H64\]: cannot read fp16_dense_tflop_per_s"):
        load_catalog(tmp_path, TODAY)


def test_of_two_dates_the_newer_price_counts(tmp_path: Path) -> None:
    write(tmp_path, "sources.toml", '[our-books]\ntitle = "Our books"\n')
    older = P5_CONTRACT.replace("2026-10-01", "2026-09-01").replace(",40,", ",50,")
    write(tmp_path, "offers/aws/a.csv", OFFERS, P5_CONTRACT)
    write(tmp_path, "offers/aws/b.csv", OFFERS, older)
    [found] = [o for o in load_catalog(tmp_path, TODAY).offers if o.source == "our-books"]
    assert found.price_per_instance_usd_per_hour == 40


@pytest.mark.parametrize("price", ["nan", "0", "-3", "free", "", "inf"])
def test_a_bad_price_is_named_by_file_line_and_column(tmp_path: Path, price: str) -> None:
    row = OWNED.replace("4.50", price)
    write(tmp_path, "offers/home/x.csv", OFFERS, P5_CONTRACT, row)
    with pytest.raises(UsageError, match=r"x\.csv line 3: cannot read price_per_instance_usd_per_hour"):
        load_catalog(tmp_path, TODAY)


def test_a_misspelt_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "accelerators/own.toml", "[H64]\nbf16_tflop_per_s = 700\n")
    with pytest.raises(UsageError, match="Did you mean bf16_dense_tflop_per_s"):
        load_catalog(tmp_path, TODAY)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("offers/x.csv", "cloud,region\n", "the header lacks a column"),
        ("offers/x.csv", OFFERS + "aws,us-east-1\n", "wrong number of cells"),
        ("accelerators/x.toml", "[H64\n", "is not TOML"),
        ("accelerators/x.toml", "speed = 3\n", "stands outside a table"),
        ("sources.toml", '[s]\ntitle = "x"\nas_of = "soon"\n', "cannot read as_of"),
    ],
)
def test_a_broken_table_is_one_clear_message(tmp_path: Path, name: str, content: str, message: str) -> None:
    write(tmp_path, name, content)
    with pytest.raises(UsageError, match=message):
        load_catalog(tmp_path, TODAY)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sources.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"not text in UTF-8: .*sources\.toml"):
        load_catalog(tmp_path, TODAY)


def test_an_overlay_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not there") as caught:
        load_catalog(tmp_path / "missing")
    assert caught.value.exit_code == 2


SPOT_P5 = P5_CONTRACT.replace("on_demand", "spot")


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ((OWNED.replace("2026-10-01", "2099-01-01"),), 2, ("not in the future", "2099-01-01", "2026-11-21")),
        ((OWNED, P5_CONTRACT, P5_CONTRACT.replace(",40,", ",41,")), 4, ("no duplicates", "line 3", "one price per")),
        (
            (OWNED, SPOT_P5.replace(",40,", ",9999,")),
            3,
            ("spot below on-demand", "9999.0 above 55.04", "at most 55.04"),
        ),
        ((SPOT_P5.replace(",40,", ",39,"), P5_CONTRACT.replace(",40,", ",38,")), 2, ("39.0 above 38.0",)),
        ((P5_CONTRACT.replace("our-books", "no-books"),), 2, ("source exists", "no-books")),
        ((P5_CONTRACT.replace("p5.48xlarge", "p99"),), 2, ("instance exists", "p99")),
    ],
)
def test_an_overlay_row_that_breaks_a_rule_is_named_by_file_line_and_rule(
    overlay: Path, rows: tuple[str, ...], line: int, said: tuple[str, ...]
) -> None:
    write(overlay, "offers/home/2026-10-01.csv", OFFERS, *rows)
    with pytest.raises(UsageError) as refusal:
        load_catalog(overlay, TODAY)
    place = f"{Path('offers', 'home', '2026-10-01.csv')} line {line}"
    assert all(words in str(refusal.value) for words in (place, *said))


def test_a_price_of_a_retired_machine_is_refused(overlay: Path) -> None:
    write(overlay, "instances/home.csv", INSTANCES, BOX.replace("current", "retired"))
    with pytest.raises(UsageError, match="'sold today': the instance type is retired"):
        load_catalog(overlay, TODAY)


def test_a_row_of_today_is_not_in_the_future(overlay: Path) -> None:
    write(overlay, "offers/home/2026-10-01.csv", OFFERS, OWNED.replace("2026-10-01", "2026-11-21"))
    assert ("home", "box-8") in load_catalog(overlay, TODAY).instances
    with pytest.raises(UsageError, match="not in the future"):
        load_catalog(overlay, date(2026, 11, 20))


def test_a_source_dated_in_the_future_is_refused(overlay: Path) -> None:
    write(overlay, "sources.toml", '[our-books]\ntitle = "Our books"\nas_of = 2030-01-01\n')
    with pytest.raises(UsageError, match=r"sources\.toml \[our-books\]: our-books breaks a rule"):
        load_catalog(overlay, TODAY)


def test_a_link_of_no_known_kind_is_refused(overlay: Path) -> None:
    write(overlay, "instances/home.csv", INSTANCES, BOX.replace("nvswitch", "warp"))
    with pytest.raises(UsageError, match=r"home\.csv line 2: cannot read link_kind; found 'warp'; expected .*nvswitch"):
        load_catalog(overlay, TODAY)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("offer/x.csv", "Did you mean offers?"),
        ("source.toml", "Did you mean sources.toml?"),
        ("offers.csv", "Did you mean offers?"),
        ("offers/x.tsv", "expected a .csv file"),
        ("offers/aws/x.CSV", "expected a .csv file"),
        ("accelerators/deeper/own.toml", "expected a .toml file"),
    ],
)
def test_an_entry_that_no_table_is_read_from_is_refused(overlay: Path, entry: str, said: str) -> None:
    write(overlay, entry, OFFERS)
    with pytest.raises(UsageError) as refusal:
        load_catalog(overlay, TODAY)
    assert said in str(refusal.value)


def test_notes_and_hidden_files_may_lie_in_an_overlay(overlay: Path) -> None:
    for entry in ("README.md", ".git/config", "offers/.DS_Store", "engines/notes.md"):
        write(overlay, entry, "not a table")
    assert ("home", "box-8") in load_catalog(overlay, TODAY).instances


@pytest.mark.parametrize("price", ["300", "12"])
def test_a_price_three_times_off_the_list_of_its_regions_is_a_slip_and_refused(overlay: Path, price: str) -> None:
    write(overlay, "offers/x.csv", OFFERS, P5_CONTRACT.replace("us-east-1", "eu-west-1").replace(",40,", f",{price},"))
    with pytest.raises(UsageError, match=r"x\.csv line 2.*'usual price'.*contracts\.csv"):
        load_catalog(overlay, TODAY)


def test_an_upfront_payment_on_demand_is_named_by_file_and_line(overlay: Path) -> None:
    write(overlay, "offers/x.csv", OFFERS, P5_CONTRACT.replace(",0,40,", ",5000,40,"))
    with pytest.raises(UsageError, match=r"x\.csv line 2: .*commit_1y or commit_3y"):
        load_catalog(overlay, TODAY)


def test_what_is_paid_up_front_counts_by_the_hour(overlay: Path) -> None:
    bound = P5_CONTRACT.replace("on_demand,0,40", "commit_1y,87600,30").replace("us-east-1", "us-east-2")
    bound3 = bound.replace("commit_1y", "commit_3y")
    write(overlay, "offers/x.csv", OFFERS, bound, bound3)
    catalog = load_catalog(overlay, TODAY)
    costs = {
        o.price_kind: price_per_gpu_usd_per_hour(o, catalog.instance_of(o)) * 8
        for o in catalog.offers
        if o.source == "our-books" and o.region == "us-east-2"
    }
    assert costs == {PriceKind.COMMIT_1Y: 40.0, PriceKind.COMMIT_3Y: pytest.approx(30 + 10 / 3)}


def test_a_price_far_from_other_clouds_is_told_and_kept(overlay: Path) -> None:
    instance = BOX.replace("home,box-8", "bargain,box-8")
    write(overlay, "instances/home.csv", INSTANCES, BOX, instance)
    cheap = OWNED.replace("home,lab", "bargain,lab").replace("owned", "on_demand").replace("4.50", "1.60")
    write(overlay, "offers/x.csv", OFFERS, cheap)
    catalog = load_catalog(overlay, TODAY)
    [offer] = [o for o in catalog.offers if o.cloud == "bargain"]
    assert re.fullmatch(r"0\.0\d+x what other clouds ask per GPU", offer.doubt)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux lists open files")
@pytest.mark.parametrize(
    ("read", "text"), [(lambda path: rows_of(path, ("a",)), "a\n1\n2\n"), (tables_of, "[a]\n[b]\n")]
)
def test_a_reader_that_stops_in_the_middle_leaves_no_table_open(
    tmp_path: Path, read: Callable[[Path], Iterator[object]], text: str
) -> None:
    path = tmp_path / "table"
    path.write_text(text, encoding="utf-8")
    rows = read(path)
    next(rows)
    assert path not in {Path(f"/proc/self/fd/{name}").resolve() for name in os.listdir("/proc/self/fd")}
    assert len(list(rows)) == 1
