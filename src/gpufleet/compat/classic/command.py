"""`python3 gpu_migration_analyzer.py`: reports of workloads and sets from a command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from gpufleet.compat.classic.analyzer import AWSGPUMigrationAnalyzer
from gpufleet.compat.classic.faults import SeveralFaults
from gpufleet.compat.classic.names import Goal
from gpufleet.compat.classic.report import MigrationReport
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.report.output_stream import remark, silence, unwritten, write_everything

DEFAULT_SET = "basic_demos"
CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer a command line; a mistake of the user is one message and an exit code."""
    return answered(lambda: run(parser().parse_args(arguments)))


def answered(work: Callable[[], object]) -> int:
    """The exit code of `work`, whose errors for users are printed in one line."""
    write_everything()
    try:
        work()
        print(end="", flush=True)
    except GpufleetError as error:
        return complained(error)
    except BrokenPipeError:
        silence(sys.stdout)
        return CLOSED_PIPE
    except OSError as error:
        return complained(unwritten(error))
    return 0


def complained(error: GpufleetError) -> int:
    """Say what went wrong, one line for each fault; returns the exit code."""
    faults = error.faults if isinstance(error, SeveralFaults) else ()
    remark(f"error: {error.problem}:" if faults else f"error: {one_line(error)}")
    for number, fault in enumerate(faults, start=1):
        remark(f"  {number}. {one_line(fault)}")
    return error.exit_code


def one_line(error: GpufleetError) -> str:
    """A message without line breaks."""
    return " ".join(str(error).split())


def parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    found = argparse.ArgumentParser(
        prog="gpu_migration_analyzer.py",
        description=f"Where GPU workloads on AWS could move. Without arguments: the set {DEFAULT_SET}.",
    )
    found.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="ids of workloads; --list names them")
    found.add_argument("--set", dest="set_name", metavar="NAME", help="a workload set")
    found.add_argument("--list", action="store_true", help="list workloads and sets")
    found.add_argument("--goal", choices=[goal.value for goal in Goal], help="what the options are ranked by")
    found.add_argument("--json", action="store_true", help="the figures as JSON")
    found.add_argument("--config-dir", metavar="DIR", help="JSON files of your own, laid over the shipped ones")
    found.add_argument("--no-true-today", action="store_true", help="leave out what catalog and model say")
    found.add_argument("--troubleshoot", metavar="SYMPTOM", help="such as 'CUDA out of memory'")
    return found


def run(asked: argparse.Namespace) -> None:
    """Print what was asked for."""
    analyzer = AWSGPUMigrationAnalyzer(asked.config_dir, true_today=not asked.no_true_today)
    if asked.troubleshoot is not None:
        print(analyzer.troubleshoot(asked.troubleshoot))
    elif asked.list:
        analyzer.list_available_workloads()
    elif asked.workloads and asked.set_name:
        raise UsageError("workloads and a set are both named", expected="one of them")
    elif asked.json:
        print(json.dumps([report.data for report in reports(analyzer, asked)], indent=2))
    elif asked.workloads:
        for workload_id in asked.workloads:
            analyzer.run_workload_by_id(workload_id, asked.goal)
    else:
        analyzer.run_workload_set(asked.set_name or DEFAULT_SET, asked.goal)


def reports(analyzer: AWSGPUMigrationAnalyzer, asked: argparse.Namespace) -> list[MigrationReport]:
    """The reports of the named workloads, or of the set."""
    ids = asked.workloads or analyzer.config.set_of(asked.set_name or DEFAULT_SET)
    return [analyzer.report_of(workload_id, asked.goal) for workload_id in ids]
