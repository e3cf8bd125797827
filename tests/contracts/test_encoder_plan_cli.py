"""`gpufleet plan batch` and `plan serve` of models that are not decoders, as they are typed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Planned, RunGpufleet

from gpufleet.cli import main
from gpufleet.inputs.preferences import preferences
from gpufleet.report.numbers import usd

Ask = Callable[..., tuple[int, str]]
JOB = ("plan", "batch", "bge-base-en-v1.5", "--requests", "10M", "--in", "200", "--deadline", "24h",
       "--clouds", "aws,gcp")  # fmt: skip
SERVICE = ("plan", "serve", "bge-base-en-v1.5", "--rate", "300/s", "--in", "128", "--slo", "latency.p95<50ms")
RECORDINGS = ("plan", "batch", "whisper-tiny", "--requests", "10k", "--audio", "30min", "--deadline", "9h",
              "--gpus", "L4")  # fmt: skip
IMAGES = ("plan", "serve", "vit-base-patch16-224", "--rate", "2000/s", "--rows", "3")
TRANSLATIONS = ("plan", "batch", "t5-base", "--requests", "1M", "--in", "60", "--out", "60", "--deadline", "9h",
                "--gpus", "L4")  # fmt: skip
NOTHING = (*SERVICE[:-1], "latency.p95<1ms")
QUESTIONS = [JOB, SERVICE, RECORDINGS, IMAGES, TRANSLATIONS, NOTHING]
IDS = ["job", "service", "recordings", "images", "translations", "nothing"]


@pytest.fixture
def ask(planned_once: Planned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Exit code and standard output of a command line that must not complain."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str]:
        code = main(words)
        said = capsys.readouterr()
        assert said.err == ""
        return code, said.out

    return run


@pytest.mark.parametrize("words", QUESTIONS, ids=IDS)
def test_every_format_says_the_same_and_no_line_exceeds_80_columns(ask: Ask, words: tuple[str, ...]) -> None:
    code, page = ask(*words, "--explain", "--show", "rejected")
    told = json.loads(ask(*words, "-o", "json")[1])
    rows = list(csv.DictReader(io.StringIO(ask(*words, "-o", "csv")[1])))
    assert code == (0 if told["deployments"] else 3)
    assert max(map(len, page.splitlines())) <= 80
    assert [row["instance"] for row in rows] == [d["instance"] for d in told["deployments"]]
    for output in ("md", "html"):
        text = ask(*words, "-o", output)[1].replace("\\_", "_")
        assert all(d["instance"].removeprefix("Standard_") in text for d in told["deployments"])
    for title in ("Inputs", "How it is computed"):
        assert f"\n{title}\n" in page


def test_the_headline_of_a_job_says_machines_cost_and_finish(ask: Ask) -> None:
    best = json.loads(ask(*JOB, "-o", "json")[1])["deployments"][0]
    sentence = " ".join(ask(*JOB)[1].split("\n\n")[0].split())
    assert sentence.startswith("10,000,000 sequences of 200 tokens through bert-base-uncased within 24.0 h: ")
    assert f"{best['instance_count']}x {best['cloud']} {best['instance']}" in sentence
    assert f"{usd(best['usd_per_million_inputs']['value'])} per 1M sequences" in sentence


def test_the_headline_of_a_service_says_what_an_input_costs(ask: Ask) -> None:
    best = json.loads(ask(*SERVICE, "-o", "json")[1])["deployments"][0]
    sentence = " ".join(ask(*SERVICE)[1].split("\n\n")[0].split())
    assert f"{usd(best['usd_per_million_inputs'])} per 1M sequences" in sentence
    assert f"{usd(best['usd_per_hour'])}/h" in sentence


def test_the_cost_of_audio_is_by_the_hour(ask: Ask) -> None:
    assert "per hour of audio" in ask(*RECORDINGS)[1]


@pytest.mark.parametrize(("engine", "windows"), [("faster-whisper", 60), ("transformers", 90)])
def test_a_recording_has_the_windows_of_its_engine_which_overlap_in_transformers_alone(
    ask: Ask, engine: str, windows: int
) -> None:
    told = json.loads(ask(*RECORDINGS, "--engine", engine, "-o", "json")[1])
    assert (told["inputs_per_request"], told["audio_s"], told["output_tokens"]) == (windows, 1800, 120)


def test_no_answer_names_the_change_that_helps(ask: Ask) -> None:
    code, page = ask(*NOTHING)
    [change] = json.loads(ask(*NOTHING, "-o", "json")[1])["relaxations"]
    assert code == 3
    assert change["needed"] in page
    assert ask(*SERVICE[:-1], f"latency.p95<{change['needed'].replace(' ', '')}")[0] == 0


def test_a_workload_file_says_what_flags_say(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "recordings.yaml"
    file.write_text(
        "model: whisper-tiny\nrequests: 10k\naudio: 30min\nbeams: 2\ndeadline: 9h\ngpus: [L4]\n",
        encoding="utf-8",
    )
    written = json.loads(ask("plan", "batch", "--workload", str(file), "-o", "json")[1])
    typed = json.loads(ask(*RECORDINGS, "--beams", "2", "-o", "json")[1])
    assert written["deployments"] == typed["deployments"]
    origins = {i["name"]: i["origin"] for i in written["inputs"]}
    assert origins["audio"] == origins["beams"] == origins["requests"] == "file"


@pytest.mark.parametrize("cloud", ["gcp", "aws", "azure", "nebius"])
def test_a_narrow_page_keeps_what_tells_machine_types_apart(ask: Ask, cloud: str) -> None:
    asked = ("plan", "batch", "bge-base-en-v1.5", "--requests", "3000M", "--in", "200", "--deadline", "8h",
             "--clouds", cloud, "--pricing", "on_demand", "--rows", "30")  # fmt: skip
    page, told = ask(*asked)[1], json.loads(ask(*asked, "-o", "json")[1])
    lines = page.split("\nCheapest first")[1].split("\nNot shown")[0].split("\n\n")[0].splitlines()[3:]
    start = next(line.index("machines") for line in page.splitlines() if " machines " in line and " cost " in line)
    rows: list[str] = []
    for line in lines:
        cell = line[start:].split("  ")[0].strip()
        rows = [*rows[:-1], f"{rows[-1]} {cell}"] if not line[:start].strip() else [*rows, cell]
    types = {(d["cloud"], d["instance"]) for d in told["deployments"]}
    assert len(types) == len(told["deployments"]) > 3
    assert len({row.split("x ", 1)[1] for row in rows}) == len(types)


def test_compare_says_at_once_that_it_takes_no_encoder_and_what_does(ask_gpufleet: RunGpufleet) -> None:
    bare = ask_gpufleet("compare", "L4", "T4", "--model", "whisper-small")
    full = ask_gpufleet("compare", "L4", "T4", "--model", "whisper-small", "--rate", "1/s", "--in", "9", "--out", "9")
    assert (bare.returncode, bare.stderr) == (full.returncode, full.stderr)
    assert bare.returncode == 2
    assert "neither compared" in bare.stderr
    assert "gpufleet plan serve whisper-small" in bare.stderr


def test_preferences_of_decoders_do_not_stop_encoders(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUFLEET_ENGINE", "sglang")
    monkeypatch.setenv("GPUFLEET_SLO", "ttft.p95<500ms")
    assert set(preferences({"GPUFLEET_ENGINE": "sglang", "GPUFLEET_SLO": "ttft<1s"}, tmp_path)) == {"engine", "slo"}
    assert ask(*IMAGES)[0] == ask(*JOB)[0] == 0
    monkeypatch.setenv("GPUFLEET_SLO", "latency.p95<90ms")
    told = json.loads(ask(*IMAGES, "-o", "json")[1])
    assert told["objectives"] == {"latency.p95": 0.09}
    assert [i["origin"] for i in told["inputs"] if i["name"] == "objectives"] == ["config"]


def test_a_job_that_comes_again_says_what_a_run_and_a_month_cost(ask: Ask) -> None:
    words = ("plan", "batch", "bge-base-en-v1.5", "--requests", "30M", "--in", "400", "--deadline", "6h")
    told = json.loads(ask(*words, "--every", "day", "-o", "json")[1])
    first, page = told["deployments"][0], " ".join(ask(*words, "--every", "day")[1].split())
    assert f"{usd(first['usd_per_month'])} a month at one a day." in page
    assert first["price_kind"] == "spot"
    assert "each run" not in ask(*words)[1]
