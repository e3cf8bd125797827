"""Errors on rows that the constants were fitted to are told apart from those on sources that no fit has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.seen_rows import fitted_rows

from gpufleet.accuracy.score import score_files
from gpufleet.accuracy.seen_rows import (
    FIGURES,
    NEVER,
    PUBLISHER,
    PUBLISHERS,
    ROW,
    how_seen,
    publisher_of,
    tables_of,
)
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow, read_measurements

TORCHTUNE = {
    "source": "pytorch/torchtune:README.md", "model_id": "llama-3.1-8b", "gpu_id": "A100-SXM4-80GB",
    "tokens_per_s_per_gpu": "1234.5",
}  # fmt: skip


def test_the_shipped_tables_are_those_of_the_measurements() -> None:
    figures, publishers = tables_of(fitted_rows())
    assert np.array_equal(np.load(FIGURES), figures)
    assert np.array_equal(np.load(PUBLISHERS), publishers)


def test_a_row_of_ours_is_known_however_its_number_is_written() -> None:
    kind, row = next((k, r) for k, r in fitted_rows() if k == "training_throughput")
    rewritten = {**row.cells, "tokens_per_s_per_gpu": f"{float(row.text('tokens_per_s_per_gpu')):.8e}"}
    assert how_seen(kind, MeasurementRow(2, {**rewritten, "source": "somebody else"})) == ROW


@pytest.mark.parametrize(
    ("change", "seen"),
    [({}, PUBLISHER), ({"source": "example/new-suite README"}, NEVER), ({"source": ""}, NEVER)],
)
def test_a_new_row_is_of_a_source_that_is_known_or_of_one_that_is_not(change: dict[str, str], seen: str) -> None:
    assert how_seen("training_throughput", MeasurementRow(2, {**TORCHTUNE, **change})) == seen


@pytest.mark.parametrize(
    ("source", "publisher"),
    [
        ("github.com/vllm-project/vllm issues/10517", "vllm-project/vllm"),
        ("NVIDIA/Megatron-LM:images/tables.tex + README.md@5281919420", "nvidia/megatron-lm"),
        ("arXiv:2205.05198 table 5", "arxiv 2205.05198"),
        ("https://blog.vllm.ai/2025/04/05/llama4.html", "blog.vllm.ai/2025"),
        ("", ""),
    ],
)
def test_a_source_is_who_published_it(source: str, publisher: str) -> None:
    assert publisher_of(source) == publisher


def test_a_file_that_repeats_rows_of_ours_is_told_so_and_groups_them_apart(tmp_path: Path) -> None:
    ours = next(r for k, r in fitted_rows() if k == "serving_points" and r.text("usable") == "yes")
    columns = (
        "source", "model_id", "gpu_id", "engine", "engine_version", "isl", "osl", "concurrency", "num_gpus", "tp",
        "ttft_ms", "tpot_ms",
    )  # fmt: skip
    first = [ours.text(name) for name in columns]
    other = ["mine", "llama-3.1-8b", "H100-SXM", "vllm", "0.11.0", "1000", "200", "8", "1", "1", "50", "9"]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(",".join(f'"{c}"' for c in row) for row in (columns, first, other)) + "\n", "utf-8")
    (file,) = score_files([path]).files
    assert [figure.seen for figure in file.figures] == [ROW, ROW, NEVER, NEVER]
    assert {group.group for group in file.groups if group.by == "what fits have seen"} == {ROW, NEVER}
    assert [note for note in file.notes if note.startswith("1 of 2 scored rows are rows that")]


def test_what_plans_use_is_scored_where_that_is_asked_for(tmp_path: Path) -> None:
    header = "arrival,rate_per_s,num_requests,input_mean,output_mean,engine,engine_version,model_id,gpu_id,num_gpus,tp"
    path = tmp_path / "own.csv"
    path.write_text(
        f"{header},ttft_p50_ms,usable\npoisson,2,40,1000,200,vllm,0.11.0,llama-3.1-8b,H100-SXM,1,1,60,yes\n", "utf-8"
    )
    replayed, closed = (score_files([path], closed_form=asked).files[0] for asked in (False, True))
    assert (closed.is_closed_form, replayed.is_closed_form) == (True, False)
    assert closed.figures[0].predicted != replayed.figures[0].predicted
    with pytest.raises(UsageError):
        score_files([path], simulate=True, closed_form=True)


def test_measurements_of_our_own_are_seen_by_no_fit() -> None:
    own = Path(__file__).resolve().parents[3] / "measurements" / "own"
    files = [read_measurements(path) for path in sorted(own.glob("*.csv"))]
    assert {how_seen(file.kind, row) for file in files for row in file.rows} == {NEVER}
