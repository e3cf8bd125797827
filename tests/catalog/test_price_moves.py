"""The table of prices beside those that they replaced."""

from __future__ import annotations

from datetime import date

from tools.price_moves import by_cloud, by_provider, changes, moves

from gpufleet.catalog.table_files import SHIPPED
from gpufleet.catalog.table_rows import offer_rows

WRITTEN = [offer for _, offer in offer_rows(SHIPPED) if offer.cloud in ("verda", "aws")]


def test_a_price_stands_beside_the_one_before_it_and_beside_the_one_of_a_day() -> None:
    for since, before in ((None, 3.25), (date(2026, 6, 1), 2.29)):
        [h100] = [
            m for m in moves(WRITTEN, since) if m.now.instance == "1H100.80S.32V" and m.now.price_kind == "on_demand"
        ]
        assert h100.before is not None
        assert (h100.before.price_per_instance_usd_per_hour, h100.now.price_per_instance_usd_per_hour) == (
            before,
            3.928,
        )


def test_every_price_in_force_has_a_row_and_the_large_cloud_did_not_move() -> None:
    found = moves(WRITTEN, date(2026, 8, 31))
    assert len(found) == len({(o.region, o.instance, o.price_kind) for o in WRITTEN})
    on_demand = [m.ratio for m in found if m.now.cloud == "aws" and m.now.price_kind == "on_demand"]
    assert changes(on_demand)[0] == 0
    assert any(line.startswith("| aws | on_demand |") for line in by_cloud(found))
    assert any(line.startswith("| verda | on-demand |") for line in by_provider())
