"""Configs of users: fragments over the shipped rows, and clear words about what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, ModelSize, fragments
from gpufleet.compat.classic import config as config_of_files
from gpufleet.compat.classic.config import FOLDER_VARIABLE, Config, load_config
from gpufleet.compat.classic.fragments import shipped_folder
from gpufleet.errors import GpufleetError

NEW_GPU = """{"gpu_instances": {"NewGPU": {
  "name": "New Instance (Custom GPU)", "family": "N", "gpu_type": "NVIDIA CustomGPU", "vcpus": 128,
  "gpu_memory_gb": 96, "gpus_per_instance": 4, "compute_tflops": 1500.0, "interconnect_type": "Custom",
  "interconnect_bandwidth_gbps": 800, "on_demand_cost_per_hour": 45.0, "spot_cost_per_hour": 15.0,
  "memory_bandwidth_factor": 0.85, "interconnect_multiplier": 0.9, "description": "Custom"}}}"""


def config_with(folder: Path, **files: str) -> Config:
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return load_config(folder)


def test_a_price_is_updated_by_the_fragment_of_the_guide(tmp_path: Path) -> None:
    text = """{
  "P5": {
    "on_demand_cost_per_hour": 45.0,  // Updated price
    "spot_cost_per_hour": 15.0        // Updated spot price
  }
}"""
    config = config_with(tmp_path, gpu_instances=text)
    p5 = config.instance("P5")
    assert (p5.on_demand_cost_per_hour, p5.spot_cost_per_hour, p5.gpu_memory_gb) == (45, 15, 80)
    assert len(config.instances) == 9
    assert any("// comments accepted (line 3, 4)" in note for note in config.notes)
    assert any("heading is missing" in note for note in config.notes)


@pytest.mark.slow
def test_an_instance_is_added_and_can_be_moved_from(tmp_path: Path) -> None:
    config_with(tmp_path, gpu_instances=NEW_GPU)
    report = AWSGPUMigrationAnalyzer(tmp_path).generate_migration_report("newgpu", 2, "inference", "small")
    assert "the catalog has no NVIDIA CustomGPU" in " ".join(report.split())


def test_a_size_of_a_config_becomes_a_member(tmp_path: Path) -> None:
    size = '{"model_sizes": {"Tiny-2B": {"name": "Tiny", "description": "", "parameter_count_billion": 2.5}}}'
    config_with(tmp_path, model_config=size)
    analyzer = AWSGPUMigrationAnalyzer(tmp_path)
    assert analyzer.get_model_size_gb(ModelSize.TINY_2B, "fp16") == 5
    assert ModelSize("tiny_2b") is ModelSize["TINY_2B"] is ModelSize.TINY_2B
    with pytest.raises(GpufleetError, match="unknown model size 'tiny_2b'"):
        AWSGPUMigrationAnalyzer().get_model_size_gb(ModelSize.TINY_2B)


def test_a_set_may_name_workloads_of_another_file(tmp_path: Path) -> None:
    scenario = '{"current_instance": "g5", "current_gpu_count": 2, "workload_type": "Inference", "model_size": "small"}'
    mine = f'{{"workloads": {{"mine": {{"name": "Mine", "scenario": {scenario}}}}}}}'
    sets = '{"workload_sets": {"ours": ["mine", "Inference_Small_P5"]}}'
    config = config_with(tmp_path, team=mine, workloads=sets)
    assert config.set_of("OURS") == ("mine", "inference_small_p5")
    assert config.workload("mine").scenario.monthly_hours == 720
    assert config.workload("mine").scenario.precision == "fp16"


def test_null_removes_a_row_and_underscores_are_notes(tmp_path: Path) -> None:
    config = config_with(tmp_path, gpu_instances='{"_note": "ours", "gpu_instances": {"P6": null}}')
    assert "p6" not in config.instances


def test_a_fleet_without_p5_needs_no_change_of_the_shipped_workloads(tmp_path: Path) -> None:
    config = config_with(tmp_path, gpu_instances='{"gpu_instances": {"P5": null}}')
    assert not {"inference_small_p5", "fine_tuning_medium_p5"} & set(config.workloads)
    assert config.set_of("cost_optimization_focus") == ("batch_inference_g5", "production_serving_g4dn")
    assert "basic_demos" not in config.sets
    [note] = config.notes
    assert note.endswith("null removes: fine_tuning_medium_p5, inference_small_p5, basic_demos.")


def test_a_removed_workload_leaves_its_sets(tmp_path: Path) -> None:
    config = config_with(tmp_path, workloads='{"workloads": {"inference_small_p5": null}}')
    assert config.set_of("basic_demos") == ("fine_tuning_medium_p5",)


def test_a_workload_that_names_no_row_at_all_is_still_refused(tmp_path: Path) -> None:
    removed = '{"gpu_instances": {"P5": null}}'
    wrong = '{"workloads": {"training_large_p4d": {"scenario": {"current_instance": "P9"}}}}'
    with pytest.raises(GpufleetError, match="unknown GPU instance 'P9'"):
        config_with(tmp_path, gpu_instances=removed, workloads=wrong)


def test_the_environment_names_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_with(tmp_path, gpu_instances='{"gpu_instances": {"p5": {"SPOT_cost_per_hour": 9}}}')
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert load_config().instance("P5").spot_cost_per_hour == 9
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert load_config().instance("P5").spot_cost_per_hour == 16


def test_a_spot_price_above_the_other_is_accepted_and_told(tmp_path: Path) -> None:
    config = config_with(tmp_path, gpu_instances='{"P5": {"spot_cost_per_hour": 99}}')
    assert any("$99 is above $50 on demand" in note for note in config.notes)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("gpu_instances", '{"P5": {"gpu_memory_gb": -80}}', "gpu_instances.json:1:26: gpu instance P5: gpu_memory_gb"),
        ("gpu_instances", '{"gpu_instances": {"P5": {"gpu_memory": 80}}}', "Did you mean gpu_memory_gb"),
        ("gpu_instances", '{"gpu_instances": {"X9": {"vcpus": 8}}}', "gpu instance X9 lacks 'name'"),
        ("gpu_instances", '{"gpu_instances": {"P55": {"vcpus": 8}}}', "Did you mean P5"),
        ("gpu_instances", "{'gpu_instances': {}}", "expected a name such as \"workloads\""),
        ("gpu_instances", '{"gpu_instances": {"P5": {"vcpus": true}}}', "a whole number from 1 to 10000"),
        ("gpu_instances", '{"gpu_instances": {"P5": {"vcpus": 1e99}}}', "a whole number"),
        ("gpu_instances", '{"gpu_instances": {"P5": {"spot_cost_per_hour": 1e999}}}', "a number above 0"),
        ("gpu_instances", '{"gpu_instance": {"vcpus_": 8}}', "Did you mean gpu_instances"),
        ("gpu_instances", "[]", "a configuration file cannot be this"),
        ("model_config", '{"overhead_multipliers": {"inference": 0}}', "a number above 0, up to 100"),
        ("model_config", '{"precision_formats": {"int4": {"name": "INT4"}}}', "lacks 'bytes_per_parameter'"),
        ("workloads", '{"workload_sets": {"mine": ["inference_smal_p5"]}}', "Did you mean inference_small_p5"),
        ("workloads", '{"workload_sets": {"mine": []}}', "at least one workload id"),
        (
            "workloads",
            '{"workloads": {"inference_small_p5": {"scenario": {"workload_type": "INFERRING"}}}}',
            "workloads.json:1:69: workload inference_small_p5: unknown workload type 'INFERRING'. Did you mean infer",
        ),
        ("workloads", '{"workloads": {"inference_small_p5": {"scenario": {"current_instance": "P7"}}}}', "mean P6"),
        ("workloads", '{"workloads": {"inference_small_p5": {"scenario": {"monthly_hours": 9000}}}}', "up to 744"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_place_and_nearest_name(tmp_path: Path, file: str, text: str, says: str) -> None:
    with pytest.raises(GpufleetError) as caught:
        config_with(tmp_path, **{file: text})
    assert says in str(caught.value)


FIVE_FAULTS = """{"workloads": {"mine": {"nmae": "Mine", "tags": "one", "scenario": {
  "current_instance": "P7", "current_gpu_count": 0, "workload_type": "INFERENCE", "model_size": "small", "use_spot": 1
}}}}"""


def test_a_workload_with_faults_names_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(GpufleetError) as caught:
        config_with(tmp_path, workloads=FIVE_FAULTS)
    said = str(caught.value)
    assert "workloads.json:1:24: workload mine has 6 faults" in said
    for fault in ("'nmae'", "lacks 'name'", "tags", "unknown GPU instance 'P7'", "current_gpu_count", "use_spot"):
        assert fault in said
    assert [f"({n})" in said for n in (1, 6, 7)] == [True, True, False]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("gpu_instances", '{"P5": {"on_demand_cost_per_hour": 45}}'),
        ("gpu_instances", "shipped and {}"),
        ("workloads", '{"workloads": {}}'),
    ],
)
def test_a_fragment_that_is_pasted_into_the_shipped_files_is_led_to_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    shipped = tmp_path / "config"
    shutil.copytree(shipped_folder(), shipped)
    monkeypatch.setattr(fragments, "shipped_folder", lambda: shipped)
    monkeypatch.setattr(config_of_files, "shipped_folder", lambda: shipped)
    broken = shipped / f"{file}.json"
    whole = broken.read_text(encoding="utf-8")
    broken.write_text(text.replace("shipped and", whole), encoding="utf-8")
    with pytest.raises(GpufleetError, match="laid over the shipped files: --config-dir DIR"):
        AWSGPUMigrationAnalyzer(true_today=False).run_workload_set("basic_demos")


def test_a_file_in_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{}", encoding="utf-8")
    with pytest.raises(GpufleetError, match="is a file"):
        load_config(tmp_path / "prices.json")


def test_a_folder_that_is_not_there_or_is_empty_is_said(tmp_path: Path) -> None:
    with pytest.raises(GpufleetError, match="does not exist"):
        load_config(tmp_path / "nowhere")
    with pytest.raises(GpufleetError, match="holds no JSON file"):
        load_config(tmp_path)
