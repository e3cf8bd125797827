"""`python3 config_viewer.py`: the state of each config, everything in them, the rules, what to run next."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpufleet.compat.classic.command import answered
from gpufleet.compat.classic.config import FOLDER_VARIABLE, Config, chosen_folder, load_config
from gpufleet.compat.classic.fragments import FILES, command, files_of, is_shipped, read_fragment, shipped_folder
from gpufleet.compat.classic.lines import INDENT, WIDTH, bullets, hanging, plural, usd
from gpufleet.compat.classic.records import GpuInstance
from gpufleet.compat.classic.rules_settled import RULES
from gpufleet.compat.classic.troubles import TROUBLES
from gpufleet.errors import GpufleetError, UnknownName, UsageError
from gpufleet.files import named_path, refused
from gpufleet.report.page import Column, Table
from gpufleet.report.text import table_as_text
from gpufleet.units import HOURS_PER_MONTH_SEEDS

QUIT = ("q", "quit", "exit", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer a command line; a mistake of the user is one message and an exit code."""
    return answered(lambda: run(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    found = argparse.ArgumentParser(prog="config_viewer.py", description="The configuration of the migration analyzer.")
    found.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of: {', '.join(SECTIONS)}")
    found.add_argument("--config-dir", metavar="DIR", help="JSON files of your own, laid over the shipped ones")
    found.add_argument("--copy", metavar="DIR", help="copy the shipped files to DIR, to be edited there")
    found.add_argument("--plain", action="store_true", help="print everything, ask nothing")
    return found


def run(asked: argparse.Namespace) -> None:
    """Copy, or show what was asked for; with a terminal and nothing asked for, ask what to show."""
    if asked.copy is not None:
        print("\n".join(copied(named_path(asked.copy))))
        return
    unknown = [name for name in asked.sections if name not in SECTIONS]
    if unknown:
        raise UnknownName("section", unknown[0], SECTIONS)
    config = checked(asked.config_dir)
    if asked.sections or asked.plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        show(config, asked.sections or list(SECTIONS))
    else:
        converse(config)


def checked(config_dir: str | None) -> Config:
    """The configuration, after the state of its files; the one with a fault is told before the fault is raised."""
    folder = chosen_folder(config_dir)
    try:
        config = load_config(config_dir)
    except GpufleetError as error:
        print("\n".join(status_lines(folder, str(error))))
        raise
    print("\n".join(status_lines(folder)))
    return config


def show(config: Config, names: Sequence[str]) -> None:
    """Print sections."""
    for name in names:
        print("\n" + "\n".join([name.upper(), *SECTIONS[name](config)]))


def converse(config: Config) -> None:
    """Ask which section to show until the user has enough."""
    while True:
        print("\n" + "\n".join(hanging(QUESTION, "")))
        try:
            word = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if word.casefold() in QUIT:
            return
        name = NUMBERS.get(word, word.casefold())
        if name in SECTIONS:
            show(config, [name])
        else:
            print("\n".join(hanging(str(UnknownName("section", word, SECTIONS)), "")))


def copied(target: Path) -> list[str]:
    """Copy the shipped files; what is there already is never overwritten."""
    there = [name for name in FILES if os.path.lexists(target / name)]
    if there:
        raise UsageError(f"{target} has {', '.join(there)} already", hint="Nothing was copied; name another folder.")
    with refused("cannot copy", target):
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(shipped_folder() / name, target / name)
    return [
        f"Copied {', '.join(FILES)} to {target}.",
        "Edit them there, and use them by any of:",
        f"  AWSGPUMigrationAnalyzer(config_dir={str(target)!r})",
        f"  {command('gpu_migration_analyzer')} --config-dir {target}",
        f"  export {FOLDER_VARIABLE}={target}",
        "What you do not change may be deleted: the shipped rows and fields stand in.",
    ]


def status_lines(folder: Path, fault: str = "") -> Iterator[str]:
    """Each file with its state."""
    own = not is_shipped(folder)
    yield f"CONFIGURATION: {folder}{', laid over the shipped files' if own else ' (shipped)'}"
    if not os.path.isdir(folder):
        return
    for path in files_of(folder) if own else [folder / name for name in FILES]:
        yield from hanging(f"{path.name}: {status(path, fault)}")
    if own:
        yield from (f"  {name}: as shipped" for name in FILES if not os.path.exists(folder / name))


def status(path: Path, fault: str) -> str:
    """Whether a file is valid, and what is in it."""
    if fault.startswith(f"{path.name}:"):
        return f"INVALID: {fault}"
    try:
        fragment = read_fragment(path)
    except GpufleetError as error:
        return f"INVALID: {error}"
    parts = [f"{len(value.content)} in {section}" for section, value in fragment.sections.items() if value.is_object]
    return "; ".join([f"valid, {', '.join(parts) or 'empty'}", *fragment.notes])


def instance_lines(config: Config) -> list[str]:
    """All instances; a star marks rows with fields that the seed does not print."""
    columns = (
        Column("key", "Instance"),
        Column("gpu", "GPU"),
        Column("memory", "GB", lambda x: f"{x:g}", "right"),
        Column("on_demand", "$/h", lambda x: f"{x:,.2f}", "right"),
        Column("spot", "Spot", lambda x: f"{x:,.2f}", "right"),
        Column("month", "Month / spot"),
        Column("stands_for", "Stands for"),
        Column("details", "Details", below=True),
    )
    month = HOURS_PER_MONTH_SEEDS
    rows = [
        {
            "key": i.key + ("*" if i.filled_from_facts else ""),
            "gpu": i.gpu_type.removeprefix("NVIDIA "),
            "memory": i.gpu_memory_gb,
            "on_demand": i.on_demand_cost_per_hour,
            "spot": i.spot_cost_per_hour,
            "month": f"{usd(i.on_demand_cost_per_hour * month)} / {usd(i.spot_cost_per_hour * month)}",
            "stands_for": i.stands_for or "-",
            "details": details(i),
        }
        for i in config.instances.values()
    ]
    notes = ["Per GPU; months of 720 hours. *: some fields are filled from facts, named in its filled_from_facts."]
    return table_as_text(Table(columns, rows, notes=notes), WIDTH).splitlines()


def details(i: GpuInstance) -> str:
    """The fields of an instance that have no column."""
    link = f"{i.interconnect_type} {i.interconnect_bandwidth_gbps:g} GB/s x {i.interconnect_multiplier:g}"
    gpus = f"{plural(i.gpus_per_instance, 'GPU')}, {plural(i.vcpus, 'vCPU')}"
    return f"{i.compute_tflops:,g} TFLOPS x {i.memory_bandwidth_factor:g}, {link}, {gpus}"


def size_lines(config: Config) -> list[str]:
    """Model sizes."""
    lines = []
    for size in config.sizes.values():
        head = f"ModelSize.{size.key.upper()}: {size.name}, {size.parameter_count_billion:g}B ({size.description})"
        multiplier = size.memory_overhead_multiplier
        own = "" if multiplier is None else f"; training x {multiplier:g}"
        model = f"; today's model: {size.catalog_model}" if size.catalog_model else ""
        examples = f"; such as {', '.join(size.examples)}" if size.examples else ""
        lines += hanging(head + own + model + examples)
    return lines


def precision_lines(config: Config) -> list[str]:
    """Precisions and overheads."""
    lines = [
        line
        for p in config.precisions.values()
        for line in hanging(f"{p.name}: {plural(p.bytes_per_parameter, 'byte')}/parameter ({p.description or '-'})")
    ]
    factors = ", ".join(f"{kind} x {factor:g}" for kind, factor in config.overheads.items())
    return [*lines, f"  Overhead: {factors}"]


def workload_lines(config: Config) -> list[str]:
    """Workload scenarios."""
    lines = []
    for w in config.workloads.values():
        s = w.scenario
        question = f"{s.current_gpu_count}x {s.current_instance}, {s.workload_type}, {s.model_size}, {s.precision}"
        hours = f"{s.monthly_hours:g} hours{' on spot' if s.use_spot else ''}"
        lines.append(f"  {w.key}{' (example)' if w.custom else ''}")
        lines += hanging(f"{w.name}: {question}, {hours}", INDENT * 3)
        lines += hanging(f"Expected: {w.expected_outcome or '-'}", INDENT * 3)
    return lines


def set_lines(config: Config) -> list[str]:
    """Workload sets."""
    lines = (f"{name} ({plural(len(ids), 'scenario')}): {', '.join(ids)}" for name, ids in config.sets.items())
    return [part for line in lines for part in hanging(line)]


def rule_lines(_config: Config) -> list[str]:
    """The rules that the seeds leave open."""
    return [part for r in RULES for part in hanging(f"{r.about}: {r.rule}")]


def trouble_lines(_config: Config) -> list[str]:
    """Symptoms that the analyzer answers."""
    lines = []
    for t in TROUBLES:
        lines.append(f"  {t.title}")
        lines += [*hanging(f"Cause: {t.cause}", INDENT * 3), *bullets(t.solutions, INDENT * 3)]
    return lines


def next_lines(config: Config) -> list[str]:
    """What to run next."""
    workload, chosen = next(iter(config.workloads), "WORKLOAD"), next(iter(config.sets), "SET")
    analyzer, viewer = command("gpu_migration_analyzer"), command("config_viewer")
    return [
        f"  {analyzer}  # the set basic_demos",
        f"  {analyzer} {workload}",
        f"  {analyzer} --set {chosen}",
        f"  {analyzer} --troubleshoot 'out of memory'",
        f"  {viewer} --copy my_config  # then edit, and",
        f"  {analyzer} --config-dir my_config",
    ]


SECTIONS: dict[str, Callable[[Config], list[str]]] = {
    "instances": instance_lines,
    "sizes": size_lines,
    "precisions": precision_lines,
    "workloads": workload_lines,
    "sets": set_lines,
    "rules": rule_lines,
    "troubles": trouble_lines,
    "next": next_lines,
}
NUMBERS = {str(i): name for i, name in enumerate(SECTIONS, 1)}
QUESTION = f"Show which? {', '.join(f'{i} {name}' for i, name in NUMBERS.items())}; q quits."
