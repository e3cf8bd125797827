"""The migration analyzer as its guide shows it: from a clone, from anywhere, from a wheel, with nothing installed."""

from __future__ import annotations

import ast
import json
import math
import os
import pty
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet.api import estimate, fit
from gpufleet.catalog.list_prices import list_prices
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, MigrationReport, ModelSize, WorkloadType
from gpufleet.compat.classic.comparison import accelerator_of
from gpufleet.compat.classic.config import FOLDER_VARIABLE
from gpufleet.compat.classic.copies import best_copies
from gpufleet.compat.classic.fragments import FILES, shipped_folder
from gpufleet.compat.classic.report import OF_ITS_DAY
from gpufleet.compat.classic.rules_settled import RULES
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import Infeasible, UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "gpu-migration-analyzer"
NOTHING_INSTALLED = [sys.executable, "-S", "-E", "-W", "error"]
PRINTED_PRICES = {
    "G4dn": (16, 0.53, 0.21), "G5": (24, 1.62, 0.44), "G6": (24, 1.32, 0.73), "G6e": (48, 3.50, 1.75),
    "P4d": (40, 32.0, 10.0), "P4de": (80, 40.0, 12.0), "P5": (80, 50.0, 16.0), "P5e": (141, 55.0, 18.0),
    "P6": (192, 60.0, 20.0),
}  # fmt: skip
FLOP_PER_BYTE = 256
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A command without site packages, in a folder that is not the tool's."""

    def run(*words: str, cwd: Path = tmp_path, **variables: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", FOLDER_VARIABLE)}
        command = [*NOTHING_INSTALLED, *words]
        return subprocess.run(command, cwd=cwd, env={**clean, **variables}, capture_output=True, text=True, check=False)

    return run


def test_it_runs_with_nothing_installed_from_any_folder(run: Run) -> None:
    done = run(str(TOOL / "gpu_migration_analyzer.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("GPU MIGRATION REPORT") == 2
    assert "SUMMARY of basic_demos" in done.stdout
    assert "'make plan' there" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_its_names_are_imported_beside_the_script(run: Run) -> None:
    code = (
        "from gpu_migration_analyzer import AWSGPUMigrationAnalyzer, WorkloadType, ModelSize\n"
        "print(AWSGPUMigrationAnalyzer().get_model_size_gb(ModelSize.MEDIUM, 'fp32'), WorkloadType.FINE_TUNING.name)"
    )
    assert run("-c", code, cwd=TOOL).stdout == "140 FINE_TUNING\n"


def test_the_viewer_shows_state_rows_rules_and_what_to_run_next(run: Run) -> None:
    done = run(str(TOOL / "config_viewer.py"))
    shown = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"{name}: valid" in shown for name in FILES)
    assert all(rule.rule in shown for rule in RULES)
    assert all(f"ModelSize.{size.name}" in shown for size in ModelSize if size.value in ("small", "extra_large"))
    assert all(row in shown for row in (*PRINTED_PRICES, "basic_demos (2 scenarios)", "my_custom_workload (example)"))
    assert "gpu_migration_analyzer.py --set" in shown
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_viewer_asks_where_there_is_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [*NOTHING_INSTALLED, str(TOOL / "config_viewer.py")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as viewer:
        os.close(theirs)
        os.write(ours, b"sets\n9\nq\n")
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:
            pass
        assert viewer.wait() == 0
    os.close(ours)
    assert b"Show which?" in said
    assert max(map(len, said.splitlines())) <= 80
    assert b"performance_focus (2 scenarios)" in said
    assert b"unknown section '9'" in said


def test_a_copy_is_edited_and_used_and_never_overwritten(run: Run, tmp_path: Path) -> None:
    viewer, tool = str(TOOL / "config_viewer.py"), str(TOOL / "gpu_migration_analyzer.py")
    assert run(viewer, "--copy", "mine").returncode == 0
    prices = tmp_path / "mine" / "gpu_instances.json"
    prices.write_text('{"P5": {"on_demand_cost_per_hour": 10}} // ours', encoding="utf-8")
    for words, variables in (((tool, "--config-dir", "mine"), {}), ((tool,), {FOLDER_VARIABLE: "mine"})):
        shown = run(*words, "inference_small_p5", **variables).stdout
        assert "$7,200 on demand" in shown
        assert "// comments accepted" in shown
    again = run(viewer, "--copy", "mine")
    assert (again.returncode, again.stdout) == (2, "")
    assert "already" in again.stderr
    assert "ours" in prices.read_text(encoding="utf-8")


def test_the_viewer_names_the_broken_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "workloads.json").write_text('{"workloads": {,}}', encoding="utf-8")
    done = run(str(TOOL / "config_viewer.py"), "--config-dir", str(tmp_path))
    assert "workloads.json: INVALID" in done.stdout
    assert "gpu_instances.json: as shipped" in done.stdout
    assert done.stderr.startswith("error: workloads.json:1:16:")
    assert done.returncode == 2


def test_the_viewer_never_calls_a_refused_file_valid(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu_instances.json").write_text('{"P5": {"gpu_memory_gb": -80}}', encoding="utf-8")
    done = run(str(TOOL / "config_viewer.py"), "--config-dir", str(tmp_path))
    assert "gpu_instances.json: INVALID: gpu_instances.json:1:26" in done.stdout
    assert ": valid" not in done.stdout


def test_a_goal_keeps_the_summary_of_a_set(run: Run) -> None:
    done = run(str(TOOL / "gpu_migration_analyzer.py"), "--set", "basic_demos", "--goal", "reliability")
    assert "SUMMARY of basic_demos" in done.stdout


def test_reports_are_json_too(run: Run) -> None:
    done = run(str(TOOL / "gpu_migration_analyzer.py"), "--json", "--goal", "performance", "inference_small_p5")
    (report,) = json.loads(done.stdout)
    assert report["goal"] == "performance"
    assert report["current"]["monthly_cost_usd"] == 36_000
    assert report["recommendation"]["option"]["instance"] == "P6"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("inference_smal_p5",), "Did you mean inference_small_p5"),
        (("--set", "basic_demo"), "Did you mean basic_demos"),
        (("--config-dir", "nowhere"), "does not exist"),
        (("--troubleshoot", "qq"), "unknown symptom"),
        (("--set", "basic_demos", "inference_small_p5"), "workloads and a set are both named"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_or_5(run: Run, words: tuple[str, ...], says: str) -> None:
    done = run(str(TOOL / "gpu_migration_analyzer.py"), *words)
    assert done.returncode in (2, 5)
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["gpu_migration_analyzer.py", "config_viewer.py"])
def test_a_folder_that_was_copied_alone_is_told_in_one_line(run: Run, tmp_path: Path, script: str) -> None:
    shutil.copytree(TOOL, tmp_path / "alone")
    done = run(str(tmp_path / "alone" / script))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "'src' of the repository is missing" in done.stderr


@pytest.mark.parametrize("script", ["gpu_migration_analyzer.py", "config_viewer.py"])
def test_an_older_python_is_told_in_one_line(run: Run, script: str) -> None:
    """The script itself must be read by an older Python: no newer syntax before the check, nor after it."""
    ast.parse((TOOL / script).read_text(encoding="utf-8"), feature_version=(3, 7))
    code = "import sys, runpy; sys.version_info = (3, 9, 2); runpy.run_path({!r}, run_name='__main__')"
    done = run("-c", code.format(str(TOOL / script)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Python 3.10 or later is needed, found 3.9\n"


def test_each_fault_of_a_workload_has_its_line(run: Run, tmp_path: Path) -> None:
    scenario = {"current_instance": "P5", "current_gpu_count": 0, "model_size": "small", "use_spot": 1}
    mine = {"workloads": {"mine": {"name": "Mine", "scenario": scenario}}}
    (tmp_path / "workloads.json").write_text(json.dumps(mine), encoding="utf-8")
    lines = run(str(TOOL / "gpu_migration_analyzer.py"), "--config-dir", str(tmp_path)).stderr.splitlines()
    assert lines[0].endswith("workload mine has 3 faults:")
    assert [line[:4] for line in lines[1:]] == ["  1.", "  2.", "  3."]


def test_a_wheel_holds_the_names_and_the_configs(run: Run, tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    kept = shutil.ignore_patterns("__pycache__", "data")
    for name in ("src", "gpu-migration-analyzer"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=kept)
    (source / "tools").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "tools/pack_models.py"):
        shutil.copy(REPOSITORY / name, source / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from gpu_migration_analyzer import AWSGPUMigrationAnalyzer, WorkloadType, ModelSize\n"
        "analyzer = AWSGPUMigrationAnalyzer()\n"
        "print(analyzer.config.folder, len(analyzer.config.instances))"
    )
    done = run("-c", code)
    assert done.stderr == ""
    assert done.stdout.split() == [str(site / "gpufleet" / "compat" / "classic" / "shipped"), "9"]
    viewer = "import runpy, sys; sys.argv[:] = ['viewer', 'next']; runpy.run_module({!r}, run_name='__main__')"
    module = "gpufleet.compat.classic.viewer"
    shown = run("-c", f"import sys; sys.path.insert(0, {str(site)!r}); {viewer.format(module)}")
    assert "python3 -m gpu_migration_analyzer --set basic_demos" in shown.stdout
    assert f"python3 -m {module} --copy my_config" in shown.stdout
    assert sorted(p.name for p in (site / "gpufleet" / "compat" / "classic" / "shipped").iterdir()) == sorted(FILES)


def test_prices_and_memory_are_those_that_the_guide_prints() -> None:
    rows = AWSGPUMigrationAnalyzer().config.instances.values()
    found = {i.key: (i.gpu_memory_gb, i.on_demand_cost_per_hour, i.spot_cost_per_hour) for i in rows}
    assert found == PRINTED_PRICES


def test_columns_have_one_basis_that_yields_the_printed_figures() -> None:
    tables = load_catalog()
    for row in AWSGPUMigrationAnalyzer().config.instances.values():
        gpu = accelerator_of(tables, row)
        assert gpu is not None
        dense = gpu.peak_flop_per_s["fp16"]
        peak = dense if row.key == "G4dn" else 2 * dense
        factor = min(1.0, FLOP_PER_BYTE * gpu.bandwidth_bytes_per_s / dense)
        assert row.compute_tflops == pytest.approx(peak / 1e12, rel=0.015), row.key
        assert row.memory_bandwidth_factor == pytest.approx(round(factor, 1)), row.key


def test_facts_of_the_machines_behind_the_rows_are_those_of_the_catalog() -> None:
    tables = load_catalog()
    for row in AWSGPUMigrationAnalyzer().config.instances.values():
        machine = tables.instances["aws", row.stands_for]
        assert (row.vcpus, row.gpus_per_instance) == (machine.vcpus, machine.gpu_count), row.key
        link = machine.fabric.bytes_per_s
        if row.filled_from_facts and link:
            assert row.interconnect_bandwidth_gbps == 2 * link / 1e9, row.key


def test_the_interactive_session_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    analyzer = AWSGPUMigrationAnalyzer(true_today=False)
    assert "training_large_p4d" in analyzer.list_available_workloads()
    report = analyzer.run_workload_by_id("training_large_p4d")
    assert str(report) in capsys.readouterr().out
    assert repr(report).startswith("<MigrationReport: Move from 8x P4d")
    int8 = analyzer.generate_migration_report(
        current_instance="P5", current_gpu_count=1,
        workload_type=WorkloadType.INFERENCE, model_size=ModelSize.MEDIUM, precision="int8",
    )  # fmt: skip
    assert isinstance(int8, MigrationReport)
    assert "42 GB = 35B parameters x 1 byte x 1.2" in int8


def test_sets_hold_the_members_of_the_guide() -> None:
    assert AWSGPUMigrationAnalyzer().config.sets == {
        "basic_demos": ("fine_tuning_medium_p5", "inference_small_p5"),
        "cost_optimization_focus": ("inference_small_p5", "batch_inference_g5", "production_serving_g4dn"),
        "performance_focus": ("training_large_p4d", "inference_massive_p5e"),
        "comprehensive_suite": (
            "fine_tuning_medium_p5", "inference_small_p5", "training_large_p4d", "inference_massive_p5e",
        ),
        "research_academic": ("research_training_g6e", "batch_inference_g5"),
    }  # fmt: skip


def test_each_report_opens_with_what_is_true_today() -> None:
    text = " ".join(AWSGPUMigrationAnalyzer().report_of("inference_small_p5").split())
    assert text.index("TRUE TODAY") < text.index(OF_ITS_DAY) < text.index("CURRENT SETUP")
    truth = text[text.index("TRUE TODAY") : text.index(OF_ITS_DAY)]
    assert "llama-2-13b (13.02B) stands for Small (13B)" in truth
    assert "1,000 input and 200 output tokens, 1 request/s" in truth
    assert truth.startswith("TRUE TODAY (catalog and model, not the arithmetic below) - BEST TODAY by cost: ")
    assert "Cheapest on AWS" in truth
    assert "2,000 TFLOPS are with sparsity, 989 dense" in truth
    assert "no NVLink 4-way, its GPUs talk over PCIe" in truth


def test_a_refuted_recommendation_is_marked_wherever_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    analyzer = AWSGPUMigrationAnalyzer()
    tuning, serving = analyzer.run_workload_set("basic_demos")
    said = " ".join(capsys.readouterr().out.split())
    assert "REFUTED: move to 3x G6e: does not fit" in tuning.partition(OF_ITS_DAY)[0]
    assert "> 3x G6e !" in tuning
    assert "REFUTED TODAY: does not fit: fine-tuning of all weights takes 16x L40S. Do not act on it." in said
    assert re.search(r"1x G6e, saves \$33,480/month, 0.24x speed true today: ", said)
    assert said.count("best today: ") == 2
    option = tuning.data["recommendation"]["option"]
    assert option["refuted_today"]
    assert option["refuted_because_today"]
    assert serving.data["recommendation"]["option"]["performance_ratio_today"] < 1


@pytest.mark.parametrize("goal", ["cost", "performance", "reliability"])
@pytest.mark.parametrize("workload", ["inference_small_p5", "production_serving_g4dn", "inference_massive_p5e"])
def test_an_option_is_refuted_by_what_it_claims_and_by_nothing_else(workload: str, goal: str) -> None:
    options = AWSGPUMigrationAnalyzer().report_of(workload, goal).data["options"]
    today = next(o for o in options if o["is_today"])
    for o in options:
        price = o["monthly_cost_usd_today"] / today["monthly_cost_usd_today"]
        printed, speed = o["monthly_cost_usd"] / today["monthly_cost_usd"], o["performance_ratio_today"]
        why = " ".join(o["refuted_because_today"])
        if speed is None or "short of" in why:
            assert o["refuted_today"], o
            continue
        saves_nothing = printed < 1 <= price
        overpays = printed >= 1 and price - 1 > 2 * (printed - 1) and price > speed
        slower = goal != "cost" and o["performance_ratio"] > 1 > speed
        is_wrong = not o["is_today"] and (saves_nothing or overpays or slower)
        assert o["refuted_today"] is is_wrong, o


def test_an_over_provisioned_gpu_is_judged_at_the_load_that_it_carries() -> None:
    """An idle GPU may be exchanged for a smaller one, though a token of a busy one is cheaper."""
    report = AWSGPUMigrationAnalyzer().report_of("inference_small_p5")
    [moved] = [o for o in report.data["options"] if o["instance"] == "G6e"]
    assert not moved["refuted_today"]
    assert moved["monthly_saving_usd_today"] > 0
    assert "at full load a token costs" in " ".join(report.split())


def test_a_load_that_the_scenario_states_is_the_one_it_is_judged_by(tmp_path: Path) -> None:
    scenario = '{"workloads": {"inference_small_p5": {"scenario": {"requests_per_s": 4}}}}'
    (tmp_path / "workloads.json").write_text(scenario, encoding="utf-8")
    report = AWSGPUMigrationAnalyzer(tmp_path).report_of("inference_small_p5")
    [moved] = [o for o in report.data["options"] if o["instance"] == "G6e"]
    assert moved["refuted_because_today"] == ["short of 4 request/s"]
    assert "4 request/s (800 tokens/s), as the scenario says" in " ".join(report.split())
    with pytest.raises(UsageError, match="requests_per_s"):
        AWSGPUMigrationAnalyzer().generate_migration_report("P5", 1, "inference", "small", requests_per_s=-1)


@pytest.mark.parametrize("workload", list(AWSGPUMigrationAnalyzer(true_today=False).config.workloads))
@pytest.mark.parametrize("goal", ["cost", "performance"])
def test_the_first_words_name_the_best_that_todays_facts_do_not_refute(workload: str, goal: str) -> None:
    report = AWSGPUMigrationAnalyzer().report_of(workload, goal)
    first = " ".join(report.partition("TRUE TODAY")[2].partition("  - ")[2].partition("  - ")[0].split())
    best = report.data["best_today"]
    assert not best["refuted_today"]
    assert first.startswith(f"BEST TODAY by {goal}: ")
    assert f"{best['gpu_count']}x {best['instance']}" in first
    assert f"${best['monthly_cost_usd_today']:,.0f} for" in first
    stands = [o for o in report.data["options"] if not o["refuted_today"] and o["monthly_cost_usd_today"] is not None]
    if goal == "cost":
        assert all(best["monthly_cost_usd_today"] <= o["monthly_cost_usd_today"] for o in stands)
    elif best["performance_ratio_today"]:
        assert all(best["performance_ratio_today"] >= o["performance_ratio_today"] for o in stands)


def test_counts_between_the_fewest_and_those_of_today_are_tried() -> None:
    """Two T4 do not hold it and 13 are wasted: by today's facts the smallest that carries it lies between."""
    report = only("G4dn", 13)
    best = report.data["best_today"]
    listed = {o["gpu_count"] for o in report.data["options"]}
    assert min(listed) < best["gpu_count"] < max(listed)
    assert best["gpu_count"] not in listed


def only(instance: str, count: int) -> MigrationReport:
    """Inference of a small model where no other instance is configured."""
    analyzer = AWSGPUMigrationAnalyzer()
    rows = {key: row for key, row in analyzer.config.instances.items() if row.key == instance}
    analyzer.config = replace(analyzer.config, instances=rows)
    return analyzer.generate_migration_report(instance, count, "inference", "small")


def test_a_model_that_the_rule_keeps_out_and_that_fits_is_told_so() -> None:
    report = AWSGPUMigrationAnalyzer().generate_migration_report("P5", 1, "inference", "medium")
    assert fit("codellama-34b", "H100:1", 1200, precision="fp16", batch=1).fits
    assert "CANNOT FIT MODEL by this rule. REFUTED TODAY: it fits" in " ".join(report.split())


def test_where_no_printed_count_holds_a_training_the_fewest_gpus_that_do_are_named() -> None:
    report = AWSGPUMigrationAnalyzer().report_of("fine_tuning_medium_p5")
    assert all(o["refuted_today"] for o in report.data["options"])
    best = report.data["best_today"]
    assert not best["refuted_today"]
    assert best["gpu_count"] > max(o["gpu_count"] for o in report.data["options"] if o["instance"] == best["instance"])
    assert "holds fine-tuning as TP4/PP2x12 at" in " ".join(report.split())


def test_a_cost_that_is_understated_is_marked_as_loudly_as_a_saving_that_is_none() -> None:
    report = AWSGPUMigrationAnalyzer().report_of("inference_small_p5", "performance")
    dearer = report.data["recommendation"]["option"]
    assert dearer["saving_percent"] == pytest.approx(-20.0)
    text = " ".join(report.split())
    assert re.search(r"REFUTED: move to 1x P6: it costs [\d.]+x today's price, not 1.20x", text)
    assert "> 1x P6 !" in report
    assert "It pays" not in text
    paying = AWSGPUMigrationAnalyzer().report_of("inference_massive_p5e")
    understated = paying.data["recommendation"]["option"]
    assert understated["refuted_today"] or "COST UNDERSTATED TODAY: it costs" in " ".join(paying.split())


@pytest.mark.parametrize("workload", list(AWSGPUMigrationAnalyzer(true_today=False).config.workloads))
def test_what_does_not_fit_is_nowhere_said_to_fit(workload: str) -> None:
    report = AWSGPUMigrationAnalyzer().report_of(workload)
    option, text = report.data["recommendation"]["option"], " ".join(report.split())
    if option["refuted_today"]:
        assert "fits with room" not in text
        told = str(report).partition("\nRECOMMENDATION\n")[2].partition("\n\n")[0]
        assert " ".join(told.split()).endswith("Do not act on it.")
    today = [o for o in report.data["options"] if o["is_today"]]
    if today and today[0]["refuted_today"]:
        assert "fits by this rule. REFUTED TODAY: " in text


def test_without_the_install_the_first_line_says_of_which_day_the_figures_are(run: Run) -> None:
    text = run(str(TOOL / "gpu_migration_analyzer.py"), "inference_small_p5").stdout
    head = text.split("\n\n")[1]
    assert head == OF_ITS_DAY
    (report,) = json.loads(run(str(TOOL / "gpu_migration_analyzer.py"), "--json", "inference_small_p5").stdout)
    assert report["prices_and_speeds"] == OF_ITS_DAY
    assert report["recommendation"]["option"]["refuted_today"] is None


def test_without_the_install_the_shipped_list_says_which_prices_are_of_whole_machines(run: Run) -> None:
    text = " ".join(run(str(TOOL / "gpu_migration_analyzer.py"), "inference_small_p5").stdout.split())
    assert "$50.00 for P5 is the price of a whole machine, not of one GPU: p5.48xlarge with 8 GPUs costs $" in text
    assert "$60.00 for P6 is the price of a whole machine" in text
    assert "for G6e is the price of a whole machine" not in text
    assert (
        "1x p5.48xlarge, whole, 8 GPUs each: $36,000 a month; the printed $50.00 is the price of a whole machine"
        in text
    )
    assert re.search(r"Listed at \$[\d,]+ a month on demand today: g6e.xlarge with 1 GPU costs \$", text)
    assert "1x g6e.48xlarge, whole, 8 GPUs each: $20,160 a month; the printed $3.50 is the price of one GPU" in text


def test_without_the_install_a_set_says_nothing_of_a_best_option_and_what_costs_more_costs(run: Run) -> None:
    text = run(str(TOOL / "gpu_migration_analyzer.py"), "--set", "performance_focus").stdout
    assert "training_large_p4d: 8x P6, costs $161,280 more/month, 6.49x speed" in text
    assert "best today" not in text


def test_the_list_read_with_nothing_installed_is_the_catalogs() -> None:
    tables, listed = load_catalog(), list_prices("aws")
    offers = matching_offers(tables, OfferFilter(clouds={"aws"}, price_kinds={PriceKind.ON_DEMAND}))
    cheapest: dict[str, float] = {}
    for offer in offers:
        cheapest[offer.instance] = min(offer.price_per_instance_usd_per_hour, cheapest.get(offer.instance, math.inf))
    known = [
        row.stands_for for row in AWSGPUMigrationAnalyzer().config.instances.values() if row.stands_for in cheapest
    ]
    assert len(known) >= 8
    assert {name: listed[name].usd_per_hour for name in known} == {name: cheapest[name] for name in known}


def test_more_gpus_hold_more_copies_and_never_give_less() -> None:
    arch, gpu = shipped_architecture("llama-2-13b"), load_catalog().accelerators["A100-SXM4-40GB"]
    rates = {n: best_copies(arch, "fp16", gpu, n).output_tokens_per_s.value for n in (1, 4, 8, 16, 64)}
    assert list(rates.values()) == sorted(rates.values())
    assert rates[64] == pytest.approx(8 * rates[8])
    stretched = estimate(arch, (gpu.name, 8), input_tokens=1000, output_tokens=200, full_queue=True, precision="fp16")
    assert rates[8] >= stretched.output_tokens_per_s.value
    copies = best_copies(arch, "fp16", gpu, 64)
    assert copies.number * copies.layout.num_devices == 64


def test_a_model_that_no_copy_holds_says_what_is_short() -> None:
    arch, gpu = shipped_architecture("llama-3.1-405b"), load_catalog().accelerators["T4"]
    with pytest.raises(Infeasible, match="does not fit 8x T4"):
        best_copies(arch, "fp16", gpu, 8)


def test_training_is_held_against_what_the_model_of_training_needs() -> None:
    report = AWSGPUMigrationAnalyzer().report_of("training_large_p4d")
    text = " ".join(report.split())
    assert "does not fit: training of all weights takes 40x A100-SXM4-40GB; 8 GPUs hold LoRA." in text
    assert "Fewest of today's GPUs that hold it: all weights on 40x A100-SXM4-40GB as TP8/PP5" in text
    assert "speed of training is not predicted" not in text


def test_a_recommendation_that_does_not_hold_the_model_is_told_so() -> None:
    report = AWSGPUMigrationAnalyzer().report_of("production_serving_g4dn")
    truth = " ".join(report.partition(OF_ITS_DAY)[0].split())
    assert "1x g4dn.12xlarge (2 of 4 GPUs)" in truth
    assert "for that load with 20% to spare" in truth
    option = report.data["recommendation"]["option"]
    held = fit("llama-2-13b", f"T4:{option['gpu_count']}", 1200, precision="fp16", batch=1).fits
    assert held or any("does not fit" in reason for reason in option["refuted_because_today"])


def test_a_setup_that_does_not_carry_the_load_is_told_so() -> None:
    report = AWSGPUMigrationAnalyzer().generate_migration_report("P4d", 2, "inference", "small", precision="fp32")
    assert "short of that load" in " ".join(report.split())
    [today] = [o for o in report.data["options"] if o["is_today"]]
    assert today["refuted_because_today"] == ["short of 1 request/s"]


def test_the_rule_of_memory_is_quoted_with_the_multiplier_in_force() -> None:
    report = AWSGPUMigrationAnalyzer().generate_migration_report("P6", 8, "training", "extra_large")
    assert "x 1.8 for training leaves too little" in " ".join(report.split())


def test_one_home_holds_the_configs() -> None:
    assert shipped_folder() == TOOL / "config"
    assert not (REPOSITORY / "src" / "gpufleet" / "compat" / "classic" / "shipped").exists()
