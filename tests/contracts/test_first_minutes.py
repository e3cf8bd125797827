"""What somebody meets in the first five minutes: the demo, the doctor, settings, and TAB."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import gpufleet.api.installation as installation
from gpufleet.cli.demo import STEPS
from gpufleet.inputs.preferences import KEYS
from gpufleet.report.setup import diagnosis_page
from gpufleet.results.setup import Diagnosis

pytestmark = pytest.mark.usefixtures("planned_once")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DEMO_BUDGET_S = 3.0
STEADY_AS_USUAL = ("--steady", KEYS["steady"].default)
PLAN = ("plan", "serve", "llama-3.1-8b", "--rate", "1/s", "--in", "100", "--out", "100")


def inputs_of(plan: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    """Value and origin of every input of a plan."""
    assert plan.stderr == ""
    return {row["name"]: (row["value"], row["origin"]) for row in json.loads(plan.stdout)["inputs"]}


def test_the_demo_answers_within_seconds_and_fits_the_screen(
    ask_gpufleet: Run, processor_s: Callable[..., float]
) -> None:
    assert processor_s("demo", budget_s=DEMO_BUDGET_S) < DEMO_BUDGET_S
    done = ask_gpufleet("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.count("\n  $ gpufleet ") == len(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.command)
def test_the_demo_shows_what_its_commands_print(step: object, ask_gpufleet: Run) -> None:
    _, command, paragraphs = step  # type: ignore[misc]
    printed = ask_gpufleet(*shlex.split(command)[1:]).stdout
    assert "\n\n".join(printed.split("\n\n")[:paragraphs]).rstrip() in ask_gpufleet("demo").stdout


def test_every_command_that_the_demo_ends_with_can_be_typed(ask_gpufleet: Run) -> None:
    after = ask_gpufleet("demo").stdout.partition("Type next\n")[2]
    commands = [line.strip() for line in after.splitlines() if line.startswith("  gpufleet ")]
    assert len(commands) >= 3
    for command in commands:
        done = ask_gpufleet(*shlex.split(command.replace("YOUR_MODEL", "llama-3.1-8b"))[1:])
        assert done.returncode == 0, done.stderr


def test_the_doctor_looks_at_everything_that_an_answer_rests_on(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("doctor", "-o", "json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0
    assert list(checks) == [
        "Python", "gpufleet", "packages", "catalog", "prices", "snapshots", "calibration", "settings", "terminal",
        "GPU",
    ]  # fmt: skip
    assert checks["Python"]["found"].startswith(".".join(map(str, sys.version_info[:3])))
    assert max(map(len, ask_gpufleet("doctor").stdout.splitlines())) <= 80


def test_the_doctor_says_how_old_prices_are_and_when_they_are_old() -> None:
    catalog = installation.load_catalog()
    oldest = min(offer.as_of for offer in catalog.offers)
    fresh, old = (installation.price_check(catalog, date.fromordinal(oldest.toordinal() + days)) for days in (90, 91))
    assert (fresh.status, old.status) == ("ok", "note")
    assert "(91 days)" in old.found
    assert old.hint.startswith("The oldest are 91 days old.")
    assert "never live" in old.hint
    assert diagnosis_page(Diagnosis(checks=[fresh])).headline == "Everything that is needed is here."
    assert diagnosis_page(Diagnosis(checks=[old])).headline == "Everything that is needed is here; see below: prices."


def test_the_doctor_names_refreshes_and_those_that_did_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUFLEET_PRICES", str(tmp_path / "prices"))
    assert installation.snapshot_check().found == f"none in {tmp_path / 'prices'}"
    (tmp_path / "prices" / "aws-list" / "20261101T080000Z").mkdir(parents=True)
    check = installation.snapshot_check()
    assert (check.status, check.found) == ("ok", f"aws-list 20261101 in {tmp_path / 'prices'}")
    (tmp_path / "prices" / "azure-list" / ".download").mkdir(parents=True)
    check = installation.snapshot_check()
    assert (check.status, check.hint.partition(". ")[0]) == ("note", "Not finished: azure-list")


def test_the_doctor_exits_1_and_names_the_command_when_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = installation.installed_version
    monkeypatch.setattr(installation, "installed_version", lambda name: None if name == "numpy" else real(name))
    [_, packages] = installation.package_checks()
    assert (packages.status, packages.hint) == ("missing", "python -m pip install numpy")


def test_the_doctor_exits_5_when_tables_of_the_user_cannot_be_read(ask_gpufleet: Run, tmp_path: Path) -> None:
    done = ask_gpufleet("doctor", GPUFLEET_CATALOG=str(tmp_path / "nowhere"))
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout.startswith("Missing: catalog.")
    assert "nowhere" in done.stdout
    (tmp_path / "gpufleet.toml").write_text("engine = true", encoding="utf-8")
    broken = ask_gpufleet("doctor")
    assert broken.returncode == 5
    assert "'engine' cannot be read" in " ".join(broken.stdout.split())
    assert broken.stdout.startswith("Missing: settings."), "the tables are fine"


def test_the_same_tables_have_the_same_version_of_calibration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipped = installation.calibration_version()
    assert installation.calibration_version() == shipped
    (tmp_path / "kernels.toml").write_text("changed", encoding="utf-8")
    monkeypatch.setattr(installation, "CALIBRATION_FOLDER", tmp_path)
    assert installation.calibration_version() != shipped


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo NVIDIA L4; echo NVIDIA L4", "2x NVIDIA L4"),
        ("echo no driver; exit 9", installation.NO_GPU),
        ("true", installation.NO_GPU),
    ],
)
def test_a_gpu_is_seen_where_its_driver_names_it(
    script: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert installation.gpu_check().found == found


def test_settings_name_every_key_and_where_it_was_set(ask_gpufleet: Run, tmp_path: Path) -> None:
    (tmp_path / "gpufleet.toml").write_text('engine = "sglang"', encoding="utf-8")
    done = ask_gpufleet("config", "-o", "json", GPUFLEET_SLO="ttft<1s", GPUFLEET_SLOO="x")
    told = json.loads(done.stdout)
    origins = {row["key"]: row["origin"] for row in told["settings"]}
    assert list(origins) == list(KEYS)
    assert (origins["engine"], origins["slo"], origins["clouds"]) == ("gpufleet.toml", "GPUFLEET_SLO", "default")
    assert told["notes"] == ["GPUFLEET_SLOO means nothing here; GPUFLEET_SLO does."]


def test_the_stated_defaults_are_those_of_a_plan(ask_gpufleet: Run) -> None:
    plan = inputs_of(ask_gpufleet(*PLAN, "-o", "json"))
    names = {"pricing": "price kinds", "slo": "objectives"}
    asked = [key for key in KEYS if key not in ("catalog", "currency", "steady")]
    stated = {key: plan[names.get(key, key)][0].split(" (")[0] for key in asked}
    assert stated == {key: KEYS[key].default for key in asked}
    plain, said = (json.loads(ask_gpufleet(*PLAN, *words, "-o", "json").stdout) for words in ((), STEADY_AS_USUAL))
    assert plain["deployments"] == said["deployments"]


def test_a_flag_goes_before_a_workload_file_and_that_before_preferences(ask_gpufleet: Run, tmp_path: Path) -> None:
    (tmp_path / "gpufleet.toml").write_text(
        'clouds = ["aws"]\nengine = "sglang"\nheadroom = "50%"\npricing = "spot"', encoding="utf-8"
    )
    (tmp_path / "chat.yaml").write_text("clouds: gcp\nengine: tensorrt-llm", encoding="utf-8")
    words = (*PLAN, "--workload", "chat.yaml", "--engine", "vllm", "-o", "json")
    plan = inputs_of(ask_gpufleet(*words, GPUFLEET_HEADROOM="40%"))
    assert plan["engine"][0].startswith("vllm")
    assert plan["engine"][1] == "given"
    assert plan["clouds"] == ("gcp", "file")
    assert plan["headroom"] == ("40%", "config")
    assert plan["price kinds"] == ("spot", "config")


def test_a_plan_says_what_the_configuration_gave(ask_gpufleet: Run) -> None:
    page = " ".join(ask_gpufleet(*PLAN, GPUFLEET_CLOUDS="gcp", GPUFLEET_ENGINE="sglang").stdout.split())
    assert "From your configuration: engine sglang" in page
    assert "clouds gcp." in page
    assert "Assumed: on demand prices; 20% headroom; all regions, GPUs; lengths spread: " in page


def test_a_serving_engine_that_is_preferred_does_not_stop_encoders(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("encode", "bge-base-en-v1.5", "--gpus", "L4", "--in", "128", GPUFLEET_ENGINE="sglang")
    assert "with text-embeddings-inference" in " ".join(done.stdout.split())


def test_an_engine_that_is_preferred_holds_for_every_verb_that_serves(ask_gpufleet: Run) -> None:
    fit = ask_gpufleet("fit", "llama-3.1-8b", "--gpus", "L40S", "-o", "json", GPUFLEET_ENGINE="sglang")
    assert json.loads(fit.stdout)["engine"] == "SGLang"


def test_a_wrong_preference_is_blamed_on_where_it_was_set(ask_gpufleet: Run, tmp_path: Path) -> None:
    (tmp_path / "gpufleet.toml").write_text('engine = "vlmm"', encoding="utf-8")
    done = ask_gpufleet(*PLAN)
    assert done.returncode == 2
    assert "unknown engine 'vlmm'. Did you mean vllm?" in done.stderr
    assert done.stderr.endswith("'engine' is set in gpufleet.toml.\n")
    typed = ask_gpufleet(*PLAN, "--engine", "sglangg")
    assert "is set in" not in typed.stderr


def test_tables_of_the_user_are_found_by_preference(ask_gpufleet: Run, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    (tables / "accelerators").mkdir(parents=True)
    (tables / "gpu_aliases.toml").write_text('"our-card" = "L40S"', encoding="utf-8")
    assert ask_gpufleet("fit", "llama-3.1-8b", "--gpus", "our-card").returncode == 2
    (tmp_path / "gpufleet.toml").write_text('catalog = "tables"', encoding="utf-8")
    assert "on 1x L40S" in ask_gpufleet("fit", "llama-3.1-8b", "--gpus", "our-card").stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pl"], "plan"),
        (["plan", "ser"], "serve"),
        (["catalog", "pri"], "prices"),
        (["plan", "serve", "--rat"], "--rate"),
        (["plan", "serve", "llama-3.3"], "llama-3.3-70b"),
        (["fit", "m", "--gpus", "H10"], "H100-SXM"),
        (["plan", "serve", "--clouds", "aws,gc"], "aws,gcp"),
        (["plan", "serve", "--regions", "us-eas"], "us-east-1"),
        (["plan", "serve", "--regions", "us"], "us"),
        (["plan", "serve", "--regions", "us-east-1,germ"], "us-east-1,germany"),
        (["catalog", "prices", "--region", ""], "eu"),
        (["estimate", "m", "--engine", "sg"], "sglang"),
        (["plan", "serve", "--pricing", "sp"], "spot"),
    ],
)
def test_tab_offers_words_and_names(words: list[str], offered: str, run_gpufleet: Run) -> None:
    typed = {"COMP_WORDS": " ".join(["gpufleet", *words]), "COMP_CWORD": str(len(words))}
    done = run_gpufleet(_GPUFLEET_COMPLETE="complete_bash", **typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert offered in done.stdout.split()


def test_completion_is_installed_for_the_shell_that_is_used(run_gpufleet: Run, tmp_path: Path) -> None:
    shown = run_gpufleet("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_GPUFLEET_COMPLETE=complete_bash" in shown.stdout
    done = run_gpufleet(
        "--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1", HOME=str(tmp_path)
    )
    assert done.returncode == 0
    assert "gpufleet" in (tmp_path / ".bashrc").read_text(encoding="utf-8")


def test_preferences_lie_under_jobs_and_under_services_with_classes(ask_gpufleet: Run, tmp_path: Path) -> None:
    (tmp_path / "gpufleet.toml").write_text('clouds = "gcp"\nslo = "ttft<1s"\nheadroom = "50%"', encoding="utf-8")
    job = ask_gpufleet(
        "plan",
        "batch",
        "llama-3.1-8b",
        *["--requests", "1M", "--in", "100", "--out", "100", "--deadline", "24h", "-o", "json"],
    )
    told = inputs_of(job)
    assert (told["clouds"], told["headroom"][1]) == (("gcp", "config"), "default")
    (tmp_path / "kinds.yaml").write_text(
        "model: llama-3.1-8b\nrate: 2/s\nclasses:\n  chat: {share: 50%, in: 500, out: 100, slo: ttft<2s}\n"
        "  long: {share: 50%, in: 4000, out: 100}",
        encoding="utf-8",
    )
    kinds = ask_gpufleet("plan", "serve", "--workload", "kinds.yaml", "-o", "json")
    assert inputs_of(kinds)["clouds"] == ("gcp", "config")


def test_a_workload_file_goes_before_preferences_in_a_comparison_too(ask_gpufleet: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(
        "model: llama-3.1-8b\nrate: 1/s\nin: 100\nout: 100\nengine: vllm", encoding="utf-8"
    )
    words = ("compare", "H100", "L40S", "--workload", "chat.yaml", "-o", "json")
    assert ask_gpufleet(*words, GPUFLEET_ENGINE="sglang").stdout == ask_gpufleet(*words).stdout
    assert ask_gpufleet(*words, "--engine", "sglang").stdout != ask_gpufleet(*words).stdout


def test_where_a_preference_is_set_is_said_once(ask_gpufleet: Run) -> None:
    """The demo asks a command inside of a command; both know where the folder was named."""
    done = ask_gpufleet("demo", GPUFLEET_CATALOG="nowhere")
    assert done.returncode == 2
    assert done.stderr.count("'catalog' is set in GPUFLEET_CATALOG.") == 1
