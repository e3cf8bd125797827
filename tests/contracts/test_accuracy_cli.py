"""`gpufleet accuracy` as somebody with a file of measurements uses it."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpufleet.inputs.measurements import KINDS

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MEASUREMENTS = Path(__file__).resolve().parents[2] / "measurements"
ROW_COLUMNS = [
    "row",
    "quantity",
    "measured",
    "predicted",
    "low",
    "high",
    "grade",
    "reason",
    "source",
    "model_id",
    "gpu_id",
]
TINY = {
    "model_type": "llama",
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
SERVING = "model_id,gpu_id,engine,isl,osl,concurrency,num_gpus,tp,ttft_ms,tpot_ms"
THROUGHPUT = "source,model_id,gpu_id,engine,scenario,batch_or_concurrency,num_gpus,tp,isl,osl,out_tokens_per_s_total"


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., str]:
    """Write a measurement file of one's own; returns its path."""

    def write(header: str, *lines: str, name: str = "own.csv") -> str:
        (tmp_path / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    return write


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_own_measurements_of_an_own_model_are_scored(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my-1b.json").write_text(json.dumps(TINY))
    file = own(SERVING, "my-1b,H100-SXM,vllm,1000,200,16,1,1,60,5", "my-1b,H100-SXM,vllm,1000,200,64,1,1,150,8")
    done = ask_gpufleet("accuracy", file, "--models", str(tmp_path / "mine"), "--rows", str(tmp_path / "rows.csv"))
    assert done.returncode == 0, done.stderr
    assert "2 of 2 scored rows predicted (100%)" in " ".join(done.stdout.split())
    rows = rows_of(tmp_path / "rows.csv")
    assert [(row["row"], row["quantity"], row["measured"]) for row in rows] == [
        ("2", "ttft", "60"),
        ("2", "tpot", "5"),
        ("3", "ttft", "150"),
        ("3", "tpot", "8"),
    ]
    assert all(float(row["low"]) < float(row["predicted"]) < float(row["high"]) for row in rows)
    assert {row["reason"] for row in rows} == {""}


def test_a_model_may_be_named_by_its_config(ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    file = own(THROUGHPUT, f"mine,{tmp_path / 'config.json'},H100-SXM,vllm,fixed_batch,8,1,1,128,128,1500")
    done = ask_gpufleet("accuracy", file, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"][0]["coverage_ratio"] == 1.0


def test_the_rows_file_has_exactly_the_documented_columns(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path
) -> None:
    first = own("model,params_exact", "gpt2,124439808")
    assert ask_gpufleet("accuracy", first, "--rows", str(tmp_path / "one.csv")).returncode == 0
    assert list(rows_of(tmp_path / "one.csv")[0]) == ROW_COLUMNS
    second = own("model,params_exact", "distilgpt2,81912576", name="second.csv")
    assert ask_gpufleet("accuracy", first, second, "--rows", str(tmp_path / "two.csv")).returncode == 0
    assert [row["file"] for row in rows_of(tmp_path / "two.csv")] == [first, second]


def test_published_counts_are_exact(ask_gpufleet: Run, tmp_path: Path) -> None:
    done = ask_gpufleet("accuracy", str(MEASUREMENTS / "param_counts.csv"), "--rows", str(tmp_path / "rows.csv"))
    assert done.returncode == 0
    rows = rows_of(tmp_path / "rows.csv")
    assert len(rows) == 255 + 68
    assert all(row["predicted"] == row["measured"] or "planned yet" in row["reason"] for row in rows)
    assert sum(row["predicted"] == row["measured"] for row in rows) == 237 + 14 + 68


def test_every_format_is_written(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    file = own("model,params_exact", "gpt2,124439808", "llama-2-7b,6000000000")
    table, as_json = ask_gpufleet("accuracy", file), ask_gpufleet("accuracy", file, "-o", "json")
    assert max(map(len, table.stdout.splitlines())) <= 80
    found = json.loads(as_json.stdout)
    assert found["schema_version"]
    assert {group["by"] for group in found["files"][0]["groups"]} == {"all", "kind of model"}
    groups = list(csv.DictReader(ask_gpufleet("accuracy", file, "-o", "csv").stdout.splitlines()))
    assert float(groups[0]["median_error_ratio"]) == pytest.approx(0.0615, rel=0.01)
    assert "| all |" in ask_gpufleet("accuracy", file, "-o", "md").stdout


def test_ranges_are_scored_by_width_and_by_how_sure_their_share_is(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    rows = ["a,gpt2,124439808", "b,gpt2,100000000", "b,distilgpt2,81912576"]
    found = json.loads(ask_gpufleet("accuracy", own("kind,model,params_exact", *rows), "-o", "json").stdout)
    whole = found["files"][0]["groups"][0]
    assert whole["interval_coverage_ratio"] == pytest.approx(2 / 3)
    assert (whole["interval_coverage_low_ratio"], whole["interval_coverage_high_ratio"]) == (0.5, 1.0)
    assert (whole["num_parties"], whole["half_width_ratio"]) == (2, 0.0)


def test_a_picture_is_drawn_beside_the_answer(ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path) -> None:
    file = own(SERVING, "llama-3.1-8b,H100-SXM,vllm,1000,200,16,1,1,60,5")
    done = ask_gpufleet("accuracy", file, "--picture", "out.svg")
    assert done.returncode == 0, done.stderr
    assert "wrote out.svg" in done.stderr
    picture = ElementTree.parse(tmp_path / "out.svg").getroot()
    said = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Time per output token", "Time to first token"} <= said
    assert ask_gpufleet("accuracy", file, "--picture", file).returncode == 2


POOLS = "isl,osl,concurrency,prefill_num_workers,decode_num_workers,silicon_ttft_ms,backend,system,model_path"
UNSAID = {
    "1000,100,8,,,90,vllm,h100_sxm,llama-3.1-8b": "workers not stated",
    "1000,100,,1,1,90,vllm,h100_sxm,llama-3.1-8b": "concurrency not stated",
    "1000,100,8,1,1,90,vllm,,llama-3.1-8b": "GPU not stated",
    "1000,100,8,1,1,90,,h100_sxm,llama-3.1-8b": "engine not stated",
}


@pytest.mark.parametrize("row", UNSAID)
def test_pools_of_which_too_little_is_said_have_the_reason(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path, row: str
) -> None:
    done = ask_gpufleet("accuracy", own(POOLS, row), "--rows", "rows.csv")
    assert done.returncode == 5
    assert UNSAID[row] in done.stderr
    (scored,) = rows_of(tmp_path / "rows.csv")
    assert float(scored["measured"]) == 90
    assert UNSAID[row] in scored["reason"]


def test_prefill_and_decode_apart_are_scored(ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path) -> None:
    done = ask_gpufleet("accuracy", own(POOLS, "1000,100,8,1,1,90,vllm,h100_sxm,llama-3.1-8b"), "--rows", "rows.csv")
    assert done.returncode == 0, done.stderr
    (scored,) = rows_of(tmp_path / "rows.csv")
    assert 0 < float(scored["low"]) < float(scored["predicted"]) < float(scored["high"])


TRAINED = {
    "model_id,gpu_id,seq_len,micro_batch,tokens_per_s_per_gpu": (
        "llama-3.1-8b,H100,2048,1,10000",
        "tokens_per_s_per_gpu",
    ),
    "model_id,gpu_id,seq_len,micro_batch,method,peak_mem_gb": ("llama-3.1-8b,H100,2048,1,lora,20", "peak_memory"),
}


@pytest.mark.parametrize("header", TRAINED)
def test_own_training_runs_are_scored(ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path, header: str) -> None:
    row, quantity = TRAINED[header]
    done = ask_gpufleet("accuracy", own(header, row), "--rows", "rows.csv")
    assert done.returncode == 0, done.stderr
    (scored,) = rows_of(tmp_path / "rows.csv")
    assert scored["quantity"] == quantity
    assert float(scored["low"]) < float(scored["predicted"]) < float(scored["high"])


def test_a_file_of_no_kind_exits_2_and_the_kinds_are_named(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own("colour,shape", "red,round"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(kind.name in done.stderr for kind in KINDS)


HOSTILE = {
    "no file": None,
    "empty": b"",
    "a picture": b"\x89PNG\r\n\x1a\n\x00\x00",
    "a quote that never ends": b'model,params_exact\n"' + b"x" * 200_000,
    "utf-16": "model,params_exact\n".encode("utf-16"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_unreadable_file_exits_2_with_one_line(ask_gpufleet: Run, tmp_path: Path, name: str) -> None:
    content = HOSTILE[name]
    if content is not None:
        (tmp_path / "f.csv").write_bytes(content)
    done = ask_gpufleet("accuracy", "f.csv")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_hostile_rows_have_reasons_and_the_good_row_is_scored(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path
) -> None:
    good = "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,1,1,128,128,900"
    bad = {
        "here,no-such-model,H100-SXM,vllm,fixed_batch,8,1,1,128,128,900": "unknown model",
        "here,llama-3.1-8b,no-such-gpu,vllm,fixed_batch,8,1,1,128,128,900": "unknown GPU",
        "here,llama-3.1-8b,H100-SXM,no-such-engine,fixed_batch,8,1,1,128,128,900": "unknown engine",
        "here,llama-3.1-8b,H100-SXM,vllm,no-such-scenario,8,1,1,128,128,900": "scenario",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,eight,1,1,128,128,900": "not a number",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,nan,1,1,128,128,900": "not a number",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,1e18,1,1,128,128,900": "",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,1,1,1e300,128,900": "",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,99999,99999,128,128,900": "",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,3,3,128,128,900": "",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,1,-1,128,128,900": "positive",
        "here,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,1,1,128,128,-900": "positive",
        "here,../../etc/passwd,H100-SXM,vllm,fixed_batch,8,1,1,128,128,900": "",
        "here,llama-3.1-8b": "cut off",
    }
    done = ask_gpufleet("accuracy", own(THROUGHPUT, *bad, good), "--rows", str(tmp_path / "rows.csv"))
    assert done.returncode == 0, done.stderr
    *refused, scored = rows_of(tmp_path / "rows.csv")
    assert float(scored["predicted"]) > 0
    assert len(refused) == len(bad)
    for row, words in zip(refused, bad.values(), strict=True):
        assert row["predicted"] == "", row
        assert row["reason"], row
        assert words in row["reason"]


def test_rows_that_cannot_be_written_exit_2(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own("model,params_exact", "gpt2,1"), "--rows", "/no/such/folder/rows.csv")
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_a_header_alone_exits_5_and_says_that_there_are_no_rows(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own(SERVING))
    assert done.returncode == 5
    assert "Nothing could be compared" in done.stdout
    assert "own.csv: no row can be compared (it has no rows)" in done.stderr


def test_a_file_without_any_comparable_row_exits_5_with_the_reasons(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own("model,params_exact", "gpt2,abc", "gpt2,-1", "gpt2,nan", "gpt2"), "-o", "json")
    assert done.returncode == 5
    assert "2 rows: params_exact is not a number; 1 row: params_exact must be positive" in done.stderr
    (file,) = json.loads(done.stdout)["files"]
    assert (file["num_rows"], file["num_scored_rows"]) == (4, 0)
    assert sum(reason["count"] for reason in file["left_out"]) == 4


def test_unreadable_rows_are_counted_and_take_the_claim_of_exactness_away(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path
) -> None:
    file = own("model,params_exact", "gpt2,124439808", "gpt2,abc", "no-such-model,7")
    done = ask_gpufleet("accuracy", file, "--rows", str(tmp_path / "rows.csv"))
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "1 of 2 figures predicted, each equal to its measurement; 1 without prediction, 1 row not scored." in text
    assert "rows not scored count reason ----- ---------------------------- 1 params_exact is not a number" in text
    assert [row["reason"] != "" for row in rows_of(tmp_path / "rows.csv")] == [False, True, True]


def test_one_exact_figure_is_said_in_the_singular(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own("model,params_exact", "gpt2,124439808"))
    assert done.stdout.startswith("Every prediction equals its measurement: 1 figure.")


def test_a_quote_that_is_never_closed_exits_2_with_its_line(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own("model,params_exact", "gpt2,124439808", '"gpt2,124439808'))
    assert done.returncode == 2
    assert "own.csv is not CSV, line 3" in done.stderr


def test_a_name_in_a_measurement_is_no_formula_of_the_rows(
    ask_gpufleet: Run, own: Callable[..., str], tmp_path: Path
) -> None:
    ask_gpufleet("accuracy", own("model,params_exact,source", "=1+1,5,@x\x1b"), "--rows", str(tmp_path / "rows.csv"))
    [row] = rows_of(tmp_path / "rows.csv")
    assert (row["model_id"], row["source"]) == ("'=1+1", "'@x\\u001b")


@pytest.mark.parametrize(
    ("rows", "out_file", "said"),
    [
        ("rows.csv", "nowhere/page.md", "cannot write nowhere/page.md: no such folder"),
        ("rows.csv", "./rows.csv", "cannot write ./rows.csv: another answer goes there"),
        ("own.csv", "page.md", "cannot write own.csv: another answer goes there, or it is read"),
        ("rows.csv", ".", "cannot write .: it is a folder"),
        ("rows.csv", f"{'x' * 5000}.md", "cannot write: File name too long"),
    ],
)
def test_nothing_is_written_where_one_of_two_answers_cannot_be(
    ask_gpufleet: Run,
    own: Callable[..., str],
    tmp_path: Path,
    rows: str,
    out_file: str,
    said: str,
) -> None:
    own("model,params_exact", "gpt2,124439808")
    done = ask_gpufleet("accuracy", "own.csv", "--rows", rows, "--out-file", out_file)
    assert done.returncode == 2
    assert said in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["own.csv"]


def test_a_models_folder_that_is_missing_exits_2(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    done = ask_gpufleet("accuracy", own(SERVING), "--models", "nowhere")
    assert done.returncode == 2
    assert "--models" in done.stderr


def test_serving_rows_are_replayed_where_that_is_asked_for(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    row = "llama-3.1-8b,H100-SXM,vllm,1000,200,8,1,1,50,9"
    file = own(SERVING, row)
    page = ask_gpufleet("accuracy", file, "--simulate", "--rows", "rows.csv")
    assert page.returncode == 0, page.stderr
    assert "serving_points, replayed" in page.stdout
    (found,) = json.loads(ask_gpufleet("accuracy", file, "--simulate", "-o", "json").stdout)["files"]
    plain = json.loads(ask_gpufleet("accuracy", file, "-o", "json").stdout)["files"][0]
    assert (found["is_replayed"], plain["is_replayed"]) == (True, False)
    assert any("replayed" in note for note in found["notes"])


def test_a_file_that_says_nothing_of_arrivals_is_scored_as_ever(ask_gpufleet: Run, own: Callable[..., str]) -> None:
    row = "mine,llama-3.1-8b,H100-SXM,vllm,fixed_batch,8,1,1,1000,200,600"
    page = ask_gpufleet("accuracy", own(THROUGHPUT, row), "--simulate")
    assert page.returncode == 0, page.stderr
    assert "replayed" not in page.stdout
