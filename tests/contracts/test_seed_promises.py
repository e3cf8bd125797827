"""What the guide promises of the tool in prose: tips, patterns, validation, troubleshooting, contents of a report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.seed_index import all_elements

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, ModelSize, WorkloadType
from gpufleet.compat.classic.config import load_config
from gpufleet.compat.classic.fragments import shipped_folder
from gpufleet.compat.classic.records import Scenario
from gpufleet.errors import GpufleetError

TEXT = {element.id: element.text for element in all_elements()}
ANALYZER = AWSGPUMigrationAnalyzer(true_today=False)
COMFORTABLE = {"current_instance": "P5", "current_gpu_count": 1, "model_size": ModelSize.SMALL}
TOO_SMALL = {"current_instance": "P5", "current_gpu_count": 1, "model_size": ModelSize.LARGE}


def report(**asked: object) -> str:
    said = {"workload_type": WorkloadType.INFERENCE, **asked}
    return flowing(str(ANALYZER.generate_migration_report(**said)))  # type: ignore[arg-type]


def flowing(text: str) -> str:
    """The text without line breaks, so that a wrapped sentence can be found."""
    return " ".join(text.split())


def speed_and_saving(instance: str, target: str, work: WorkloadType, count: int = 1) -> tuple[float, float]:
    """Speed ratio and saving in percent of moving one size class from so many GPUs to as many others."""
    asked = ANALYZER.generate_migration_report(instance, count, work, ModelSize.SMALL)
    [found] = [o for o in asked.data["options"] if (o["instance"], o["gpu_count"]) == (target, count)]
    return found["performance_ratio"], found["saving_percent"]


@pytest.mark.parametrize(
    ("line", "work"),
    [(365, WorkloadType.TRAINING), (366, WorkloadType.INFERENCE), (367, WorkloadType.FINE_TUNING)],
    ids=str,
)
def test_a_report_gives_the_tip_for_its_kind_of_work(line: int, work: WorkloadType) -> None:
    advice = TEXT[f"guide:{line}"].partition("**: ")[2]
    assert advice.lower() in report(**COMFORTABLE, workload_type=work).lower()


def test_spot_is_advised_for_training_and_against_for_production_inference() -> None:
    assert "avoid for production inference" in TEXT["guide:368"]
    assert "use them for training, avoid them for production inference" in report(**COMFORTABLE)


@pytest.mark.parametrize(
    ("line", "work", "overhead"),
    [(371, WorkloadType.TRAINING, 1.5), (372, WorkloadType.INFERENCE, 1.2)],
    ids=str,
)
def test_memory_is_the_size_of_the_model_times_its_overhead(line: int, work: WorkloadType, overhead: float) -> None:
    assert f"Model size × {overhead}" in TEXT[f"guide:{line}"].replace("√ó", "×")
    asked = ANALYZER.question(Scenario("P5", 1, work, ModelSize.MEDIUM))
    assert asked.needed_gb == pytest.approx(70 * overhead)


def test_fp16_takes_half_of_fp32_and_int8_a_quarter() -> None:
    assert "FP16 uses 50% memory vs FP32, INT8 uses 25%" in TEXT["guide:373"]
    full, half, quarter = (ANALYZER.get_model_size_gb(ModelSize.LARGE, p) for p in ("fp32", "fp16", "int8"))
    assert (half / full, quarter / full) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("today", "target", "saved_percent"),
    [("P5", "G6e", 93.0), ("P4d", "G6e", 89.1)],
)
def test_over_provisioned_inference_saves_90_percent_from_p5_and_hardly_less_from_p4d(
    today: str, target: str, saved_percent: float
) -> None:
    assert "90%+ cost savings" in TEXT["guide:376"]
    assert speed_and_saving(today, target, WorkloadType.INFERENCE)[1] == pytest.approx(saved_percent, abs=0.05)


def test_training_moves_from_p4d_to_p5_two_to_three_times_as_fast() -> None:
    assert "P4d" in TEXT["guide:377"]
    assert "2-3x performance" in TEXT["guide:377"]
    speed, _ = speed_and_saving("P4d", "P5", WorkloadType.TRAINING)
    assert 2 <= speed <= 3


def test_from_p4d_to_p6_it_is_more_than_three_times_as_fast() -> None:
    assert "P5/P6" in TEXT["guide:377"].replace("‚Üí", "")
    speed, _ = speed_and_saving("P4d", "P6", WorkloadType.TRAINING)
    assert speed > 3


def test_any_instance_costs_less_on_spot() -> None:
    assert "Any instance" in TEXT["guide:378"]
    rows = load_config().instances.values()
    savings = [1 - row.spot_cost_per_hour / row.on_demand_cost_per_hour for row in rows]
    assert min(savings) == pytest.approx(0.447, abs=0.001)
    assert max(savings) == pytest.approx(0.728, abs=0.001)


def test_what_cannot_fit_says_so_with_the_three_solutions_worked_out() -> None:
    said = report(**TOO_SMALL)
    assert "CANNOT FIT MODEL" in said
    assert re.search(r"Use INT8: [\d.,]+ GB needed", said)
    assert re.search(r"Increase the GPU count: \d+x P5 have [\d.,]+ GB", said)
    assert re.search(r"Choose more memory per GPU: \d+x P6 .*: \d+x P5e", said)


@pytest.mark.parametrize(
    ("symptom", "cause", "solutions"),
    [("CANNOT FIT MODEL", 383, (385, 386, 387)), ("High Monthly Costs", 390, (392, 393, 394)),
     ("Low Performance", 397, (399, 400, 401))],
)  # fmt: skip
def test_a_symptom_of_the_guide_is_answered_with_its_cause_and_solutions(
    symptom: str, cause: int, solutions: tuple[int, ...]
) -> None:
    answer = flowing(ANALYZER.troubleshoot(symptom))
    assert TEXT[f"guide:{cause}"].removeprefix("**Cause**: ") in answer
    for line in solutions:
        assert TEXT[f"guide:{line}"].removeprefix("- ").replace("`", "") in answer


@pytest.mark.parametrize(
    ("symptom", "lines"),
    [("nvidia-smi not found", (510,)), ("No GPU devices found", (523,)), ("CUDA out of memory", (535, 536, 537, 538))],
)
def test_a_symptom_of_the_selection_guide_is_answered_too(symptom: str, lines: tuple[int, ...]) -> None:
    answer = flowing(ANALYZER.troubleshoot(symptom)).lower()
    for line in lines:
        advice = re.sub(
            r"^(\*\*Solution\*\*: (Ensure you're using|Check) |\d\. (Enable )?)", "", TEXT[f"selection:{line}"]
        )
        words = re.findall(r"[a-z]{3,}", advice.lower())
        assert [word for word in words if word not in answer] == [], advice


def test_an_over_provisioned_setup_is_told_of_its_cost() -> None:
    assert "over-provisioned" in TEXT["guide:390"]
    assert "HIGH MONTHLY COSTS" in report(**COMFORTABLE)


def test_at_start_a_missing_file_and_invalid_json_are_named(tmp_path: Path) -> None:
    assert "missing files and invalid JSON" in TEXT["guide:406"]
    with pytest.raises(GpufleetError, match="holds no JSON file"):
        AWSGPUMigrationAnalyzer(tmp_path)
    (tmp_path / "workloads.json").write_text('{\n  "workloads": {,}\n}\n', encoding="utf-8")
    with pytest.raises(GpufleetError, match=r"workloads\.json:2:17"):
        AWSGPUMigrationAnalyzer(tmp_path)


def test_at_run_time_values_and_required_fields_are_checked(tmp_path: Path) -> None:
    assert "enum values and required fields" in TEXT["guide:407"]
    with pytest.raises(GpufleetError, match="inference"):
        ANALYZER.generate_migration_report("P5", 1, "inferense", ModelSize.SMALL)
    config = '{"gpu_instances": {"Q1": {"name": "Q1 (none)"}}}'
    (tmp_path / "gpu_instances.json").write_text(config, encoding="utf-8")
    with pytest.raises(GpufleetError, match="Q1"):
        AWSGPUMigrationAnalyzer(tmp_path)


def test_no_recommendation_and_no_option_is_too_small_for_its_model() -> None:
    assert "Ensures models can fit" in TEXT["guide:408"]
    for key in load_config().workloads:
        answered = ANALYZER.report_of(key).data
        needed = answered["memory_needed_gb"]
        assert [o for o in answered["options"] if o["memory_available_gb"] < needed] == []


@pytest.mark.parametrize("line", range(443, 448))
def test_a_set_has_as_many_scenarios_as_the_guides_table_says(line: int) -> None:
    name, _, scenarios, _ = (cell.strip(" `") for cell in TEXT[f"guide:{line}"][1:-1].split("|"))
    assert len(load_config().set_of(name)) == int(scenarios.split()[0])


def test_the_comprehensive_suite_has_every_kind_of_work() -> None:
    assert "All workload types" in TEXT["guide:267"]
    config = ANALYZER.config
    members = [config.workload(key).scenario.workload_type for key in config.set_of("comprehensive_suite")]
    assert set(members) == {work.value for work in WorkloadType}


def test_best_practices_of_the_kind_of_work_stand_under_tips_in_every_report() -> None:
    assert "Best practices and common migration patterns" in TEXT["guide:470"]
    for key, workload in load_config().workloads.items():
        answered = ANALYZER.report_of(key)
        tips = flowing(str(answered).partition("\nTIPS\n")[2])
        assert len(answered.data["tips"]) == 3
        assert all(f"- {tip}" in tips for tip in answered.data["tips"])
        assert tips.startswith(f"- {workload.scenario.workload_type.capitalize().replace('_', '-')}: ")  # type: ignore[union-attr]


def test_over_provisioned_legacy_gpus_are_consolidated_on_fewer_and_faster_modern_ones() -> None:
    assert "Right-size with modern instances" in TEXT["guide:566"]
    answered = ANALYZER.report_of("production_serving_g4dn").data
    legacy = answered["current"]
    modern = [o for o in answered["options"] if o["instance"] == "G6e" and o["gpu_count"] < legacy["gpu_count"]]
    assert [(o["gpu_count"], o["performance_ratio"] > 1, o["memory_available_gb"]) for o in modern] == [(1, True, 48)]
    assert "HIGH MONTHLY COSTS" in str(ANALYZER.report_of("production_serving_g4dn"))


@pytest.mark.parametrize("line", range(266, 271))
def test_the_sets_are_those_of_the_guides_list(line: int) -> None:
    name = re.search(r"`(\w+)`", TEXT[f"guide:{line}"])
    assert name is not None
    assert ANALYZER.config.set_of(name[1])


def test_every_scenario_says_what_to_expect_of_it() -> None:
    assert "Expected outcomes for each scenario" in TEXT["guide:469"]
    for key, workload in load_config().workloads.items():
        assert workload.expected_outcome in flowing(str(ANALYZER.report_of(key)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (460, "Monthly cost"),
        (461, r"\$36,000 on demand \(\$11,520 on spot\)"),
        (462, r"\d\.\d\dx speed"),
        (463, "Memory needed .* Memory available"),
        (464, "Risk (Low|Medium|High): "),
        (467, r"cost .*performance .*reliability "),
        (468, "Migration complexity (Low|Medium|High): "),
        (470, "TIPS"),
    ],
)
def test_a_report_holds_what_the_guide_lists(line: int, said: str) -> None:
    assert TEXT[f"guide:{line}"]
    assert re.search(said, report(**COMFORTABLE))


def test_a_report_is_text_of_80_columns_and_data() -> None:
    for key in load_config().workloads:
        answered = ANALYZER.report_of(key)
        assert max(map(len, str(answered).splitlines())) <= 80
        assert answered.data["options"] is not None


def test_the_shipped_files_are_the_three_that_the_guide_names(tmp_path: Path) -> None:
    named = {re.search(r"`config/(\w+\.json)`", TEXT[f"guide:{line}"])[1] for line in (8, 53, 85)}  # type: ignore[index]
    assert {path.name for path in shipped_folder().glob("*.json")} == named
    shutil.copytree(shipped_folder(), tmp_path / "mine")
    assert load_config(tmp_path / "mine").instances == load_config().instances
