"""Every code block of the seeds about the tool and the calculators runs as it stands there.

Python runs as Python, shell as shell, JSON through the config loader. What a block needs and does not say itself stands
in `PRELUDES`; a block that is not run has its reason in `NOT_RUN`. The shell runs in a copy of the folder
gpu-migration-analyzer with the package beside it, as in a clone: once with everything installed, once with nothing.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import cases
from tools.seed_index import Block, all_blocks, all_elements, commands_in, is_shell

from gpufleet.compat import rules
from gpufleet.compat.classic.config import Config, load_config

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "gpu-migration-analyzer"
BLOCKS = {block.id: block for block in all_blocks()}
ELEMENTS = {element.id: element for element in all_elements()}

IMPORTS = "from gpu_migration_analyzer import AWSGPUMigrationAnalyzer, WorkloadType, ModelSize\n"
ANALYZER = IMPORTS + "analyzer = AWSGPUMigrationAnalyzer()\n"
PRELUDES = {
    "guide:203": IMPORTS,
    "guide:221": ANALYZER,
    "guide:242": ANALYZER,
    "guide:273": ANALYZER,
    "guide:535": ANALYZER,
}
"""What a block of the guide takes for granted: that its reader typed an earlier block in the same session."""

LACKS_ITS_IMPORT = ("guide:411", 416)
"""The block and the line of the one command that cannot run as printed: it uses a name that it never imports."""

TOOL_PYTHON = ("guide:162", "guide:203", "guide:221", "guide:242", "guide:273", "guide:517", "guide:535")
TOOL_SHELL = ("guide:121", "guide:127", "guide:136", "guide:145", "guide:411", "guide:495")
WITHIN = {"guide:121": "guide:495", "guide:136": "guide:495"}
"""Blocks whose commands another block has as they are: they are run with it."""
TOOL_CONFIGS = {
    "guide:12": "gpu_instances.json",
    "guide:56": "model_config.json",
    "guide:89": "workloads.json",
    "guide:288": "gpu_instances.json",
    "guide:298": "gpu_instances.json",
    "guide:323": "workloads.json",
    "guide:347": "model_config.json",
}
CALCULATORS = ("lesson:86", "lesson:182", "lesson:302")
COSTS = ("assessment:153", "assessment:160", "assessment:167", "assessment:174")
OTHERS_RUN = ("lesson:19", "guide:474")

ADVICE = "advice in YAML that no program reads; its figures are lines of their own in docs/seeds.md"
CLOUD = "creates or asks for cloud resources"
FOREIGN = "configures the seed's own product, which is not this one"
ON_A_GPU = "needs a GPU, weights and a training framework"
NOT_RUN = {
    **dict.fromkeys(("assessment:73", "assessment:87", "assessment:101", "assessment:117", "assessment:135"), ADVICE),
    **dict.fromkeys(("assessment:187", "assessment:206"), ADVICE),
    **dict.fromkeys(("assessment:242", "assessment:254", "assessment:266"), ADVICE),
    "assessment:279": "a drawing",
    **dict.fromkeys(("assessment:298", "assessment:314"), ON_A_GPU),
    "assessment:335": "part of a Kubernetes manifest",
    **dict.fromkeys(("assessment:353", "assessment:370"), "names of metrics and alerts; monitoring is planned"),
    **dict.fromkeys(("selection:26", "selection:49", "selection:74", "selection:96", "selection:114"), CLOUD),
    **dict.fromkeys(("selection:124", "selection:136", "selection:152", "selection:169", "selection:201"), CLOUD),
    **dict.fromkeys(("selection:212", "selection:317", "selection:330"), CLOUD),
    **dict.fromkeys(("selection:260", "selection:288", "selection:452"), FOREIGN),
    "selection:351": "the configuration of a SageMaker job",
    **dict.fromkeys(("selection:367", "selection:393", "selection:439", "selection:472"), CLOUD),
    "selection:486": "needs a container on a GPU and CloudWatch",
    "selection:512": CLOUD,
    "selection:525": "part of an ECS task definition",
    "selection:540": ON_A_GPU,
    **dict.fromkeys(("selection:562", "selection:567"), CLOUD),
}

Session = Callable[..., "subprocess.CompletedProcess[str]"]


def test_every_block_is_run_or_has_a_reason_not_to_be() -> None:
    run = {*TOOL_PYTHON, *TOOL_SHELL, *TOOL_CONFIGS, *CALCULATORS, *COSTS, *OTHERS_RUN}
    assert run & NOT_RUN.keys() == set()
    assert run | NOT_RUN.keys() == BLOCKS.keys()


def test_the_guide_is_run_as_a_whole() -> None:
    assert [name for name in NOT_RUN if name.startswith("guide")] == []


def executed(code: str, names: dict[str, Any]) -> str:
    """What Python code prints, run with and leaving its names in `names`."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<seed>", "exec", dont_inherit=True), names)
    return printed.getvalue()


def seed_names(block: str, epilogue: str = "") -> dict[str, Any]:
    """The names that a block of the seeds defines, run as it stands."""
    names: dict[str, Any] = {"__name__": "seed"}
    executed(BLOCKS[block].code + epilogue, names)
    return names


def without_definitions(code: str) -> str:
    """The examples of a block alone: its functions and classes taken out."""
    tree = ast.parse(code)
    tree.body = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return ast.unparse(tree)


@pytest.mark.parametrize(("block", "lines"), [("lesson:86", 16), ("lesson:182", 6)])
def test_the_examples_of_a_calculator_print_the_same_with_the_seeds_function_and_with_ours(
    block: str, lines: int
) -> None:
    with_the_seeds_own = executed(BLOCKS[block].code, {"__name__": "seed"})
    ours = {name: getattr(rules, name) for name in rules.__all__}
    assert executed(without_definitions(BLOCKS[block].code), ours) == with_the_seeds_own
    assert len([line for line in with_the_seeds_own.splitlines() if line]) == lines


def test_what_the_memory_calculator_prints_of_a_7b_model() -> None:
    printed = executed(BLOCKS["lesson:86"].code, {"__name__": "seed"})
    assert re.findall(r"recommended_gpu_memory_gb: (.*)", printed) == ["273.84", "383.36"]


@settings(max_examples=200)
@given(
    st.integers(10_000, 10**13),
    st.sampled_from((1, 2, 4)),
    st.integers(1, 4096),
    st.integers(1, 1_000_000),
    st.booleans(),
)
def test_memory_is_the_seeds_for_any_numbers(
    parameters: int, precision_bytes: int, batch: int, tokens: int, training: bool
) -> None:
    seeds = MEMORY["calculate_memory_requirements"](parameters, precision_bytes, batch, tokens, training)
    assert rules.calculate_memory_requirements(parameters, precision_bytes, batch, tokens, training) == seeds


MEMORY = seed_names("lesson:86")
RUNTIME = seed_names("lesson:182")

amounts = st.floats(0.1, 1e6)


@settings(max_examples=200)
@given(
    st.tuples(*[amounts] * 6),
    st.floats(1e9, 1e20),
    amounts,
    st.sampled_from(("fp16", "fp32", "int8")),
    st.floats(0.01, 1.0),
)
def test_runtime_is_the_seeds_for_any_numbers(
    card: tuple[float, ...], flop: float, gigabytes: float, precision: str, efficiency: float
) -> None:
    seeds = RUNTIME["estimate_runtime"](
        RUNTIME["GPUSpec"]("card", *card), RUNTIME["WorkloadProfile"](flop, gigabytes, precision), efficiency
    )
    ours = rules.estimate_runtime(
        rules.GPUSpec("card", *card), rules.WorkloadProfile(flop, gigabytes, precision), efficiency
    )
    assert ours == pytest.approx(seeds)


CUT_OFF = "\n    return {'memory': memory_per_gpu, 'batch': effective_batch, 'efficiency': scaling_efficiency}\n"
"""The text ends inside the function: this is the shortest end that lets its three branches answer."""
SCALING = seed_names("lesson:302", CUT_OFF)


def test_the_seed_breaks_off_before_its_function_returns() -> None:
    assert not BLOCKS["lesson:302"].is_closed
    unfinished = seed_names("lesson:302")
    strategy = unfinished["ParallelismStrategy"].DATA
    assert unfinished["calculate_multi_gpu_efficiency"](8, strategy, 14.0, 32) is None
    assert "return" not in BLOCKS["lesson:302"].code


@settings(max_examples=200)
@given(
    st.integers(1, 4096),
    st.sampled_from(("DATA", "MODEL", "PIPELINE")),
    st.floats(0.1, 1e4),
    st.integers(1, 4096),
    st.floats(0.0, 0.5),
)
def test_scaling_is_the_seeds_in_the_branches_that_the_seed_finishes(
    gpus: int, strategy: str, model_gb: float, batch: int, overhead: float
) -> None:
    seeds = SCALING["calculate_multi_gpu_efficiency"](
        gpus, SCALING["ParallelismStrategy"][strategy], model_gb, batch, overhead
    )
    ours = rules.calculate_multi_gpu_efficiency(gpus, rules.ParallelismStrategy[strategy], model_gb, batch, overhead)
    assert ours["memory_per_gpu_gb"] == pytest.approx(seeds["memory"], abs=0.0051)
    assert ours["effective_batch_size"] == seeds["batch"]
    assert ours["scaling_efficiency"] == pytest.approx(max(seeds["efficiency"], 0.0), abs=0.00051)


def test_the_strategies_have_the_seeds_names_and_values() -> None:
    seeds = {member.name: member.value for member in SCALING["ParallelismStrategy"]}
    assert {member.name: member.value for member in rules.ParallelismStrategy} == seeds


@pytest.mark.parametrize(("block", "environment"), list(zip(COSTS, rules.ENVIRONMENTS, strict=True)))
def test_a_cost_block_is_the_environment_of_its_name(block: str, environment: rules.Environment) -> None:
    factors, printed = re.search(r"Cost: (.*) = \$([\d,]+)/month", BLOCKS[block].code).groups()  # type: ignore[union-attr]
    machines, name = re.search(r"Configuration: (\d)x (\S+)", BLOCKS[block].code).groups()  # type: ignore[union-attr]
    product = 1.0
    for factor in factors.split("×"):
        product *= float(factor.strip().lstrip("$"))
    assert environment.usd_per_month == pytest.approx(product)
    assert environment.printed_usd_per_month == float(printed.replace(",", ""))
    assert (environment.num_instances, environment.instance) == (int(machines), name)


def test_the_analogy_of_loops_and_products_runs_and_prints_its_one_fixed_figure() -> None:
    printed = executed(BLOCKS["lesson:19"].code, {"__name__": "seed"})
    assert "GPU handles 1024x more data in similar time" in printed


# The tool


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a clone has it: the tool, the package beside it, nothing else; and two commands `python3`."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(TOOL, folder / TOOL.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").symlink_to(REPOSITORY / "src")
    for name, options in (("installed", ""), ("bare", " -S")):
        command = folder / name / "python3"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{options} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    return folder


@pytest.fixture
def session(clone: Path) -> Session:
    """Run words in the tool's folder, `python3` being the one of the name given."""

    def run(words: list[str], python3: str = "installed", **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{clone / python3}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUFLEET_")}
        return subprocess.run(
            words,
            cwd=clone / TOOL.name,
            env={**inherited, "PATH": path, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def ran(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a run that went well: exit code 0 and no traceback."""
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    assert "Traceback" not in done.stderr
    return done.stdout


def shell_of(block: Block) -> str:
    """The block as a shell script that stops at its first failure; a `cd` into the tool's folder leads from above."""
    start = "cd ..\n" if block.code.startswith(f"cd {TOOL.name}\n") else ""
    return f"set -e\n{start}{block.code}"


def python_of(block: str) -> str:
    return PRELUDES.get(block, "") + BLOCKS[block].code


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """What blocks printed."""
    return {}


@pytest.fixture
def printed(session: Session, kept: dict[str, str]) -> Callable[[str], str]:
    """What a block of Python prints: run once for all that is asked of it."""

    def printed(block: str) -> str:
        if block not in kept:
            kept[block] = ran(session(["python3", "-c", python_of(block)]))
        return kept[block]

    return printed


@pytest.mark.parametrize("python3", ["installed", "bare"])
@pytest.mark.parametrize("block", [name for name in TOOL_SHELL if name not in {LACKS_ITS_IMPORT[0], *WITHIN}])
def test_a_shell_block_of_the_guide_runs(block: str, python3: str, session: Session) -> None:
    assert is_shell(BLOCKS[block])
    assert ran(session(["bash", "-c", shell_of(BLOCKS[block])], python3)).strip()


@pytest.mark.parametrize(("block", "longer"), WITHIN.items())
def test_a_block_that_is_run_with_another_stands_in_it_word_for_word(block: str, longer: str) -> None:
    assert is_shell(BLOCKS[block])
    assert f"\n{BLOCKS[block].code.strip()}\n" in BLOCKS[longer].code


@pytest.mark.parametrize("block", TOOL_PYTHON)
def test_a_python_block_of_the_guide_runs(block: str, printed: Callable[[str], str]) -> None:
    assert printed(block).strip()


def test_the_custom_analysis_prints_the_report_that_it_asks_for(printed: Callable[[str], str]) -> None:
    report = " ".join(printed("guide:517").split())
    assert "GPU MIGRATION REPORT: 8x P4d, training, Large model, FP16" in report
    assert "$10.00 per GPU and hour on spot x 8 x 500 hours" in report


def test_the_troubleshooting_block_shows_the_configuration_and_lacks_one_import(session: Session) -> None:
    block, line = LACKS_ITS_IMPORT
    viewer, scenario = (text for _, text in commands_in(BLOCKS[block].code))
    assert BLOCKS[block].code.split("\n")[line - BLOCKS[block].first_line] == 'python3 -c "'
    assert ran(session(["bash", "-c", viewer])).strip()
    as_printed = session(["bash", "-c", BLOCKS[block].code.partition("# Test specific workload\n")[2]])
    assert "NameError: name 'AWSGPUMigrationAnalyzer' is not defined" in as_printed.stderr
    with_import = BLOCKS[block].code.replace('python3 -c "\n', f'python3 -c "\n{IMPORTS}')
    assert "Serving 13B model on 1x P5 H100" in ran(session(["bash", "-c", f"set -e\n{with_import}"]))
    assert scenario.startswith("python3 -c")


def test_the_viewer_shows_all_available_configurations(session: Session) -> None:
    assert "see all available configurations" in ELEMENTS["guide:425"].text
    shown = ran(session(["python3", "config_viewer.py"], "bare"))
    config = load_config()
    names = [*(row.key for row in config.instances.values()), *(row.name for row in config.precisions.values())]
    names += [row.key for row in config.workloads.values()] + list(config.sets) + list(TOOL_CONFIGS.values())
    names += [f"ModelSize.{row.key.upper()}" for row in config.sizes.values()]
    assert [name for name in names if name not in shown] == []
    assert max(len(line) for line in shown.splitlines() if not line.startswith("CONFIGURATION: ")) <= 80


@pytest.mark.parametrize("block", ["guide:203", "guide:535"])
def test_the_loop_over_precisions_prints_exactly_what_the_guide_says(block: str, printed: Callable[[str], str]) -> None:
    said = re.findall(r"^# (\w+: \d+GB)", BLOCKS[block].code, re.MULTILINE)
    assert said == ["FP32: 140GB", "FP16: 70GB", "BF16: 70GB", "FP8: 35GB", "INT8: 35GB"]
    assert printed(block).splitlines() == said


def test_int8_of_a_medium_model_takes_35_gb_where_fp16_takes_70(session: Session) -> None:
    assert "# Uses 35GB instead of 70GB for FP16" in BLOCKS["guide:162"].code
    code = ANALYZER + "print([analyzer.get_model_size_gb(ModelSize.MEDIUM, p) for p in ('int8', 'fp16')])\n"
    assert ran(session(["python3", "-c", code])).strip() == "[35, 70]"


def test_a_run_without_arguments_is_the_set_of_basic_demos(session: Session) -> None:
    alone = ran(session(["python3", "gpu_migration_analyzer.py"], "bare"))
    as_a_set = ran(session(["python3", "-c", ANALYZER + "analyzer.run_workload_set('basic_demos')\n"], "bare"))
    scenarios = re.findall(r"Serving 13B model on 1x P5 H100", alone)
    assert scenarios
    assert as_a_set.strip().splitlines()[-1] in alone


def test_batch_analysis_answers_for_each_setup_in_turn(printed: Callable[[str], str]) -> None:
    assert re.findall(r"^=== (\w+) Analysis ===$", printed("guide:221"), re.MULTILINE) == ["G4dn", "P4d", "G6e"]


def test_the_spot_comparison_leaves_two_reports_for_each_instance(session: Session) -> None:
    code = python_of("guide:242") + "    assert report_spot and report_ondemand and report_spot != report_ondemand\n"
    printed = ran(session(["python3", "-c", code]))
    assert re.findall(r"^=== (\w+) Cost Comparison ===$", printed, re.MULTILINE) == ["P5", "G6e", "P4d"]


def test_the_folder_is_laid_out_as_the_guide_draws_it() -> None:
    drawn = re.findall(r"([\w-]+\.(?:py|json|md))\b", BLOCKS["guide:474"].code)
    assert len(drawn) == 7
    found = {path.name for path in TOOL.rglob("*")} | {path.name for path in REPOSITORY.glob("*.md")}
    assert set(drawn) - found == set()


COMING_SOON = {
    "spot-optimizer": "spot_optimizer.py",
    "batch-scheduler": "batch_scheduler.py",
    "multi-region-analyzer": "multi_region_analyzer.py",
    "auto-scaling-analyzer": "auto_scaling_analyzer.py",
}
ASKED_IN_FULL = cases(1, 4)
"""The questions of the others are asked elsewhere; here their words are read."""


@pytest.mark.parametrize("folder", COMING_SOON)
def test_a_folder_that_was_coming_soon_answers_from_any_place(folder: str, tmp_path: Path) -> None:
    assert f"{folder}/" in BLOCKS["guide:474"].code
    is_asked = list(COMING_SOON).index(folder) < ASKED_IN_FULL
    command = [sys.executable, str(REPOSITORY / folder / COMING_SOON[folder]), *([] if is_asked else ["--help"])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("$" if is_asked else "Usage:") in done.stdout
    assert not list(tmp_path.iterdir())


# JSON through the config loader


def without_comments(code: str) -> str:
    """JSON of a block for a strict reader; no text in these blocks holds `//`."""
    return re.sub(r"//.*", "", code)


def stated_rows(block: str) -> dict[str, dict[str, Any]]:
    """Section to rows to fields, as the block states them; a row that stands alone is an instance."""
    stated: dict[str, dict[str, Any]] = json.loads(without_comments(BLOCKS[block].code))
    return {"gpu_instances": stated} if "P5" in stated else stated


def folder_with(block: str, folder: Path) -> Path:
    (folder / TOOL_CONFIGS[block]).write_text(BLOCKS[block].code, encoding="utf-8")
    return folder


def held_row(config: Config, section: str, key: str) -> Mapping[str, Any]:
    """What the loader made of a row, a scenario's fields beside those of its workload."""
    find = {"gpu_instances": config.instance, "model_sizes": config.size, "workloads": config.workload}
    return asdict(find[section](key))  # type: ignore[operator]


def comparable(value: Any) -> Any:
    """Lists as tuples, words without case, inside and out: configs are read without regard to case."""
    if isinstance(value, Mapping):
        return {name: comparable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(comparable(part) for part in value)
    return value.casefold() if isinstance(value, str) else value


@pytest.mark.parametrize("block", TOOL_CONFIGS)
def test_a_json_block_is_read_with_every_value_that_it_states(block: str, tmp_path: Path) -> None:
    config = load_config(folder_with(block, tmp_path))
    for section, rows in stated_rows(block).items():
        for key, fields in rows.items():
            if section == "workload_sets":
                assert config.set_of(key) == tuple(fields)
                continue
            held = held_row(config, section, key)
            for name, value in fields.items():
                got = held[name]
                wanted = {k: got[k] for k in value} if isinstance(value, Mapping) else got
                assert comparable(wanted) == comparable(value), (key, name)


@pytest.mark.parametrize("block", ["guide:12", "guide:56", "guide:89"])
def test_the_shipped_configs_hold_what_the_guide_shows_of_them(block: str, tmp_path: Path) -> None:
    shipped, stated = load_config(), load_config(folder_with(block, tmp_path))
    assert (stated.instances, stated.sizes, stated.workloads, stated.sets) == (
        shipped.instances, shipped.sizes, shipped.workloads, shipped.sets,
    )  # fmt: skip


def test_the_shipped_instances_precisions_and_overheads_are_those_that_the_guide_lists() -> None:
    config = load_config()
    listed = re.search(r"\*\*Available Instances\*\*: (.*)", ELEMENTS["guide:51"].text)
    assert listed is not None
    assert [row.key for row in config.instances.values()] == listed[1].split(", ")
    assert {row.name: row.bytes_per_parameter for row in config.precisions.values()} == {
        "FP32": 4, "FP16": 2, "BF16": 2, "FP8": 1, "INT8": 1,
    }  # fmt: skip
    assert config.overheads == {"training": 1.5, "fine_tuning": 1.5, "inference": 1.2}


@pytest.mark.parametrize("line", range(188, 197))
def test_the_shipped_instances_have_the_gpu_memory_and_prices_of_the_guides_table(line: int) -> None:
    name, gpu, memory_gb, on_demand, spot, _ = (
        cell.strip() for cell in ELEMENTS[f"guide:{line}"].text[1:-1].split("|")
    )
    row = load_config().instance(name)
    assert gpu.startswith(row.gpu_type.removeprefix("NVIDIA ").split()[0])
    assert row.gpu_memory_gb == float(memory_gb)
    assert (row.on_demand_cost_per_hour, row.spot_cost_per_hour) == (float(on_demand[1:]), float(spot[1:]))


def test_a_new_price_without_heading_and_with_comments_is_laid_over_the_shipped_row(tmp_path: Path) -> None:
    config = load_config(folder_with("guide:288", tmp_path))
    shipped = load_config().instance("P5")
    assert config.instance("P5") == replace(shipped, on_demand_cost_per_hour=45.0, spot_cost_per_hour=15.0)
    assert any("//" in note for note in config.notes)


def answer(session: Session, folder: Path, call: str) -> str:
    """What an analyzer with the configs of a folder prints on one call."""
    made = f"analyzer = AWSGPUMigrationAnalyzer(config_dir={str(folder)!r})\n"
    return ran(session(["python3", "-c", f"{IMPORTS}{made}{call}\n"], "bare"))


def test_an_added_instance_is_an_answer_and_a_question(session: Session, tmp_path: Path) -> None:
    call = (
        "print(analyzer.generate_migration_report(current_instance='NewGPU', current_gpu_count=4, "
        "workload_type=WorkloadType.INFERENCE, model_size=ModelSize.MEDIUM))"
    )
    assert "NewGPU" in answer(session, folder_with("guide:298", tmp_path), call)


def test_an_added_scenario_can_be_run_by_its_id(session: Session, tmp_path: Path) -> None:
    printed = answer(session, folder_with("guide:323", tmp_path), "analyzer.run_workload_by_id('my_custom_workload')")
    assert "Custom Training Scenario" in printed


def test_an_added_size_is_a_member_of_model_size(session: Session, tmp_path: Path) -> None:
    call = "print(analyzer.get_model_size_gb(ModelSize.EXTRA_LARGE, 'fp16'))"
    assert answer(session, folder_with("guide:347", tmp_path), call).strip() == "400"
