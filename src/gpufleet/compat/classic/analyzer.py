"""`AWSGPUMigrationAnalyzer`: the seeds' tool by the seeds' names."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpufleet.compat.classic import schema
from gpufleet.compat.classic.analysis import Analysis, analysis
from gpufleet.compat.classic.arithmetic import Setup, memory_needed_gb, model_size_gb
from gpufleet.compat.classic.config import Config, load_config
from gpufleet.compat.classic.lines import INDENT, bullets, hanging, said_saving
from gpufleet.compat.classic.names import Goal, ModelSize, WorkloadType, member_named
from gpufleet.compat.classic.options import USUAL_GOAL, Question
from gpufleet.compat.classic.records import DEFAULT_HOURS, DEFAULT_PRECISION, Scenario
from gpufleet.compat.classic.report import OF_ITS_DAY, REFUTED, MigrationReport, migration_report, today_in_words
from gpufleet.compat.classic.troubles import trouble_of
from gpufleet.compat.classic.truth import Truth, Verdict
from gpufleet.compat.classic.whole_machines import whole_machine_lines
from gpufleet.errors import UsageError

HOW_TO_GET_IT = (
    "Which option stands by prices and speeds of today is told with the full install: 'pip install .' in the clone, or "
    "'make plan' there and its .venv/bin/python instead of python3."
)


class AWSGPUMigrationAnalyzer:
    """Where a workload on AWS GPUs could move, by the arithmetic and figures of the configuration.

    `config_dir` is a folder of JSON files that are laid over the shipped ones; without it, the folder that the
    environment variable GPUFLEET_CLASSIC_CONFIG names. `true_today=False` leaves out what catalog and model say.

    >>> analyzer = AWSGPUMigrationAnalyzer()
    >>> print(f"{analyzer.get_model_size_gb(ModelSize.MEDIUM, 'int8')}GB")
    35GB
    """

    def __init__(self, config_dir: str | os.PathLike[str] | None = None, *, true_today: bool = True) -> None:
        self.config = load_config(config_dir)
        self._true_today = true_today

    def get_model_size_gb(self, model_size: ModelSize | str, precision: str = DEFAULT_PRECISION) -> float:
        """Parameters x bytes per parameter, without overhead."""
        return model_size_gb(self.config.size(model_size), self.config.precision(precision))

    def generate_migration_report(
        self,
        current_instance: str,
        current_gpu_count: int,
        workload_type: WorkloadType | str,
        model_size: ModelSize | str,
        monthly_hours: float = DEFAULT_HOURS,
        use_spot: bool = False,
        precision: str = DEFAULT_PRECISION,
        goal: Goal | str | None = None,
        requests_per_s: float | None = None,
    ) -> MigrationReport:
        """Where this setup could move, what that costs and how fast it is; prints as text, `.data` has the figures.

        `requests_per_s` is the load that catalog and model judge inference by; the classic arithmetic knows none.
        """
        setup = (current_instance, current_gpu_count, workload_type, model_size, monthly_hours, use_spot)
        scenario = Scenario(*setup, precision, goal, requests_per_s)
        question = self.question(scenario)
        return self._report(question, title_of(question), "")

    def question(self, scenario: Scenario) -> Question:
        """The question of a scenario, every word of it checked."""
        s, config = scenario, self.config
        today = Setup(
            config.instance(s.current_instance),
            whole_number("current_gpu_count", s.current_gpu_count, schema.MOST_GPUS),
            hours("monthly_hours", s.monthly_hours),
            true_or_false("use_spot", s.use_spot),
        )
        work = member_named(WorkloadType, s.workload_type, "workload type")
        size, format_ = config.size(s.model_size), config.precision(s.precision)
        wanted = USUAL_GOAL[work] if s.goal is None else member_named(Goal, s.goal, "goal")
        load = None if s.requests_per_s is None else request_rate("requests_per_s", s.requests_per_s)
        return Question(today, work, size, format_, wanted, memory_needed_gb(config, size, format_, work), load)

    def list_available_workloads(self) -> list[str]:
        """Print the workloads and sets of the configuration; the ids are returned."""
        print("\n".join(workload_lines(self)))
        return [workload.key for workload in self.config.workloads.values()]

    def run_workload_by_id(self, workload_id: str, goal: Goal | str | None = None) -> MigrationReport:
        """Print the report of a workload, and return it."""
        report = self.report_of(workload_id, goal)
        print(report)
        return report

    def run_workload_set(self, set_name: str, goal: Goal | str | None = None) -> list[MigrationReport]:
        """Print the reports of a set and a line on each, and return them."""
        ids = self.config.set_of(set_name)
        reports = [self.run_workload_by_id(workload_id, goal) for workload_id in ids]
        print("\n".join(set_lines(set_name, ids, reports)))
        return reports

    def report_of(self, workload_id: str, goal: Goal | str | None = None) -> MigrationReport:
        """The report of a workload, not printed."""
        workload = self.config.workload(workload_id)
        scenario = workload.scenario if goal is None else replace(workload.scenario, goal=goal)
        return self._report(self.question(scenario), f"{workload.name} ({workload.key})", workload.expected_outcome)

    def troubleshoot(self, symptom: str) -> str:
        """The cause of a symptom and what helps: cannot fit, high cost, low performance, no GPU, out of memory."""
        trouble = trouble_of(symptom)
        return "\n".join([trouble.title, f"Cause: {trouble.cause}", "Solutions:", *bullets(trouble.solutions)])

    def _report(self, question: Question, title: str, expected: str) -> MigrationReport:
        answer = analysis(self.config, question)
        truth = true_today(self.config, answer) if self._true_today else Truth()
        return migration_report(answer, title, expected, self.config.notes, truth)


def true_today(config: Config, answer: Analysis) -> Truth:
    """What catalog and model say of today's setup and of every option, or how to get that."""
    try:
        from gpufleet.compat.classic.comparison import comparison
    except ImportError:
        return Truth([*whole_machine_lines(config.instances.values(), rows_named(answer)), HOW_TO_GET_IT])
    return comparison(config.instances, answer)


def rows_named(answer: Analysis) -> set[str]:
    """The instances of today and of the best option by each goal."""
    return {setup.instance.key for setup in (answer.question.today, *(option.setup for option in answer.best.values()))}


def title_of(question: Question) -> str:
    """A question in one line."""
    q = question
    return f"{q.today.label}, {q.work.title}, {q.size.name} model, {q.precision.name}"


def workload_lines(analyzer: AWSGPUMigrationAnalyzer) -> list[str]:
    """Workloads and sets, as they are listed."""
    config = analyzer.config
    lines = ["Available workloads:"]
    for workload in config.workloads.values():
        lines.append(f"  {workload.key}{' (example)' if workload.custom else ''}")
        lines += hanging(workload.name, INDENT * 3)
    lines += ["", "Workload sets:"]
    for name, ids in config.sets.items():
        lines += hanging(f"{name}: {', '.join(ids)}")
    return lines


def set_lines(name: str, ids: Sequence[str], reports: Sequence[MigrationReport]) -> list[str]:
    """One line for each report of a set, and under it what catalog and model say of it."""
    lines = [f"SUMMARY of {name}", *hanging(OF_ITS_DAY.replace("below", "here"))]
    for workload_id, report in zip(ids, reports, strict=True):
        option = report.data["recommendation"]["option"]
        if option is None:
            lines.append(f"  {workload_id}: CANNOT FIT MODEL")
        else:
            change = f"{said_saving(option['monthly_saving_usd'])}/month, {option['performance_ratio']:.2f}x speed"
            lines.append(f"  {workload_id}: {option['gpu_count']}x {option['instance']}, {change}")
            lines += hanging(today_of(option), INDENT * 2)
        lines += hanging(best_of(report), INDENT * 2)
    return lines


def today_of(option: Mapping[str, Any]) -> str:
    """What catalog and model say of a recommended option; nothing where they were not asked or do not know."""
    if option["refuted_today"]:
        return f"{REFUTED}: {'; '.join(option['refuted_because_today'])}"
    known = figures_today(option)
    return f"true today: {known}" if known else ""


def best_of(report: MigrationReport) -> str:
    """The best option that today's facts do not refute; nothing where none is known."""
    best = report.data["best_today"]
    if best is None:
        return "best today: none" if report.data["checked_today"] else ""
    move = "stay with" if best["is_today"] else "move to"
    return f"best today: {move} {best['gpu_count']}x {best['instance']}, {figures_today(best)}"


def figures_today(option: Mapping[str, Any]) -> str:
    """What an option costs at prices of today, and what it does to bill and speed."""
    cost, saving = option["monthly_cost_usd_today"], option["monthly_saving_usd_today"]
    speed = option["performance_ratio_today"]
    verdict = Verdict(saving_usd_per_month=saving, speed_ratio=speed, month_usd=cost)
    return today_in_words(verdict, option["is_today"])


def whole_number(name: str, value: object, most: int) -> int:
    """A count of things."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= most or value != int(value):
        raise UsageError(f"{name} cannot be this", found=value, expected=f"a whole number from 1 to {most}")
    return int(value)


def hours(name: str, value: object) -> float:
    """Hours of a month."""
    return positive(name, value, schema.HOURS_OF_A_LONG_MONTH)


def request_rate(name: str, value: object) -> float:
    """Requests a second."""
    return positive(name, value, schema.MOST_REQUESTS_PER_S)


def positive(name: str, value: object, most: float) -> float:
    """A number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most or math.isnan(value):
        raise UsageError(f"{name} cannot be this", found=value, expected=f"a number above 0, up to {most}")
    return value


def true_or_false(name: str, value: object) -> bool:
    """A flag."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} cannot be this", found=value, expected="True or False")
    return value
