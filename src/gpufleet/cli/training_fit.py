"""`gpufleet fit --method`: does training a model fit these GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.asking import about
from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.options import OutputFormat, words
from gpufleet.errors import UsageError
from gpufleet.questions.training import FinetuneRequest, words_of_training
from gpufleet.questions.words import TRAINING
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.results.training import TrainingFit

MethodOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--method", metavar="NAME", help="Ask about training: full, lora or qlora.", rich_help_panel=TRAINING),
]
MicroBatchOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--micro-batch",
        metavar="N",
        help="Sequences that a GPU works on at a time; default: what is fastest.",
        rich_help_panel=TRAINING,
    ),
]
WORDS = {name: replace(row, heading=TRAINING) for name, row in words_of_training(FinetuneRequest).items()}
"""Words of fine-tuning, under one heading beside those of serving."""
SequenceOption = Annotated[Optional[str], about(WORDS["seq"])]  # noqa: UP045
RankOption = Annotated[Optional[int], about(WORDS["rank"])]  # noqa: UP045
ModulesOption = Annotated[Optional[list[str]], about(WORDS["modules"])]  # noqa: UP045
OptimizerOption = Annotated[Optional[str], about(WORDS["optimizer"])]  # noqa: UP045
LayoutOption = Annotated[Optional[list[str]], about(WORDS["layout"])]  # noqa: UP045
OffloadOption = Annotated[Optional[list[str]], about(WORDS["offload"])]  # noqa: UP045
EagerOption = Annotated[bool, about(WORDS["eager"])]
StackOption = Annotated[Optional[str], about(WORDS["stack"])]  # noqa: UP045
OF_TRAINING = ("seq", "micro_batch", "rank", "modules", "optimizer", "layout", "offload", "stack", "eager")
OF_SERVING = ("context", "engine", "engine_version", "kv_precision", "batch", "images", "all_models")


@dataclass(frozen=True)
class TrainingFlags:
    """What is said of training, as it was typed."""

    method: str
    seq: str | None
    micro_batch: int | None
    rank: int | None
    modules: list[str] | None
    precision: str | None
    optimizer: str | None
    layout: list[str] | None
    offload: list[str] | None
    eager: bool
    stack: str | None


def refuse_mixed(context: typer.Context, method: str | None) -> None:
    """Options of serving say nothing of training, and options of training need a method."""
    other, hint = (OF_TRAINING, "--method full, lora or qlora with them") if method is None else (OF_SERVING, "")
    said = [flag_of(name) for name in other if is_typed(context, name)]
    if said and method is None:
        raise UsageError(f"{', '.join(said)} of training without --method", expected=hint)
    if said:
        expected = "options of training alone, or no --method"
        raise UsageError(
            f"{', '.join(said)} of serving next to --method", found=f"--method {method}", expected=expected
        )


def flag_of(parameter: str) -> str:
    """The flag of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether somebody typed an option: what a configuration prefers is not heard where it says nothing."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def training_fit(
    model: str, gpus: str, flags: TrainingFlags, explain: bool, output: OutputFormat | None, out_file: str | None
) -> int:
    """The page of a fit of training; its exit code."""
    from gpufleet.report.training_fit import training_fit_page

    result = fitted(model, gpus, flags)
    is_html = (output or format_of(out_file)) is OutputFormat.HTML
    emit(result, training_fit_page(result, explain=explain or is_html), output, out_file)
    return result.exit_code


def fitted(model: str, gpus: str, flags: TrainingFlags) -> TrainingFit:
    """What was typed, read and put to the api."""
    from gpufleet.api.training_fits import fit_training

    return fit_training(
        model,
        gpus,
        flags.method,
        sequence_tokens=None if flags.seq is None else WORDS["seq"].value_of(flags.seq),
        micro_batch=flags.micro_batch,
        rank=flags.rank,
        modules=None if flags.modules is None else words(flags.modules),
        precision=flags.precision,
        optimizer=flags.optimizer,
        layout=",".join(flags.layout) if flags.layout else None,
        offload=None if flags.offload is None else words(flags.offload),
        eager=flags.eager,
        stack=flags.stack,
    )
