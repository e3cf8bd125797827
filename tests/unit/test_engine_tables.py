"""Constants of single engines are fitted again without touching those of the others."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("pandas")

from tools.calibrate.engines import (
    ALL_ENGINES,
    CONSTANTS,
    ERA_TABLES,
    constants_of,
    rows_of,
    rows_of_others,
    shipped_tables,
    write_rows,
)
from tools.calibrate.eras import ERAS

ROW = {"engine": "vllm", "era": "V1", "source": "a", "quantity": "tpot", "rows": "3"}


def test_tables_that_ship_are_read_letter_for_letter() -> None:
    tables = shipped_tables()
    assert list(tables) == [era.key for era in ERAS]
    assert "\n\n".join(tables.values()) + "\n" == ERA_TABLES.read_text(encoding="utf-8")


def test_only_rows_of_the_engines_that_are_named_are_replaced(tmp_path: Path) -> None:
    path, of_all = tmp_path / "left_out.csv", {**ROW, "engine": ALL_ENGINES}
    write_rows(path, [ROW, of_all, {**ROW, "engine": "transformers"}])
    new = [{**row, "rows": "4"} for row in (ROW, of_all, {**ROW, "engine": "transformers"})]
    write_rows(path, [*rows_of_others(path, ["transformers"]), *rows_of(new, ["transformers"])])
    with path.open(encoding="utf-8", newline="") as stream:
        assert {row["engine"]: row["rows"] for row in csv.DictReader(stream)} == {
            ALL_ENGINES: "4",
            "transformers": "4",
            "vllm": "3",
        }


def test_an_era_has_the_priors_of_all_engines_but_for_those_that_it_states() -> None:
    plain = next(era for era in ERAS if era.engine == "transformers")
    of_all = {c.name: c for c in CONSTANTS}
    for constant in constants_of(plain):
        known = plain.priors.get(constant.name)
        if known is None:
            assert constant.spread == of_all[constant.name].spread * plain.freedom
        else:
            assert (constant.prior, constant.spread) == known
    of_vllm = constants_of(ERAS[0])
    assert [c.name for c in of_vllm] == list(of_all)
