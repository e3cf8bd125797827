"""Measurement files as people have them: other editors' marks, cut-off rows, columns in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import KINDS, MeasurementRow, as_number, read_measurements

PARAMS = "model,params_exact\nllama-2-7b,6738415616\n"


def written(folder: Path, content: str | bytes, name: str = "mine.csv") -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path: Path) -> None:
    plain = read_measurements(written(tmp_path, PARAMS))
    marked = read_measurements(written(tmp_path, b"\xef\xbb\xbf" + PARAMS.replace("\n", "\r\n").encode()))
    assert marked.kind == plain.kind == "param_counts"
    assert [row.cells for row in marked.rows] == [row.cells for row in plain.rows]


def test_a_row_is_known_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    text = 'model,params_exact,notes\na,1,"two\nlines"\n\nb,2,\n'
    assert [row.line for row in read_measurements(written(tmp_path, text)).rows] == [2, 5]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("params_exact,model", "param_counts"),
        ("model,gpu,weights_gb", "inference_memory"),
        ("model_id,gpu_id,total_gb,status", "inference_memory"),
        ("model_id,scenario,isl,osl,tpot_ms", "inference_throughput"),
        ("model_id,isl,osl,concurrency,tpot_ms", "serving_points"),
    ],
)
def test_the_header_tells_the_kind(tmp_path: Path, header: str, kind: str) -> None:
    assert read_measurements(written(tmp_path, header + "\n")).kind == kind


@pytest.mark.parametrize(
    "header",
    [
        "colour,shape",
        "source,model,gpu,optimizer,peak_mem_gb,status",
        "id,isl,osl,concurrency,silicon_ttft_ms",
        "gpu,op,metric,value",
    ],
)
def test_another_kind_of_file_is_refused_and_the_kinds_are_named(tmp_path: Path, header: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_measurements(written(tmp_path, header + "\n"))
    assert all(kind.name in str(refusal.value) for kind in KINDS)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        read_measurements(written(tmp_path, content))


def test_semicolons_are_pointed_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Separate columns by commas"):
        read_measurements(written(tmp_path, "model;params_exact\nllama;1\n"))


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        read_measurements(written(tmp_path, PARAMS.encode("utf-16")))


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="twice"):
        read_measurements(written(tmp_path, "model,params_exact,model\n"))


def test_a_cell_of_a_megabyte_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not CSV, line 2"):
        read_measurements(written(tmp_path, PARAMS.splitlines()[0] + '\n"' + "x" * 1_000_000 + '",1\n'))


def test_a_cut_off_row_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    rows = read_measurements(
        written(tmp_path, PARAMS + "opt-6.7b\n" + "gpt2,124439808,extra\n" + "gpt2,124439808\n")
    ).rows
    assert [row.fault is None for row in rows] == [True, False, False, True]
    assert "cut off: 1 cells under 2 columns" in str(rows[1].fault)
    assert "too long" in str(rows[2].fault)


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "1e999", "twelve", "1_000", "0x10", "1,5"])
def test_a_text_is_no_number(cell: str) -> None:
    assert as_number(cell) is None
    with pytest.raises(UsageError, match="batch is not a number"):
        MeasurementRow(2, {"batch": cell}).number("batch")


@pytest.mark.parametrize("cell", ["1e308", "-1e16", "1e-300"])
def test_a_number_that_nobody_measures_is_refused(cell: str) -> None:
    with pytest.raises(UsageError, match=r"osl is out of range; found .*; expected from 0\.000000001 to"):
        MeasurementRow(2, {"osl": cell}).number("osl")


def test_an_empty_cell_is_unknown_and_not_zero() -> None:
    row = MeasurementRow(2, {"batch": "", "isl": "0", "tp": "2.5"})
    assert row.number("batch") is None
    assert row.number("isl") == 0.0
    with pytest.raises(UsageError, match="must be positive"):
        row.positive("isl")
    with pytest.raises(UsageError, match="whole number"):
        row.whole("tp")
