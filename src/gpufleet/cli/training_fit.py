"""`gpufleet fit --method`: does training a model fit these GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.options import OutputFormat, words
from gpufleet.errors import Infeasible, UsageError
from gpufleet.questions.words import TRAINING
from gpufleet.records import dataclass
from gpufleet.units import parse_tokens

if TYPE_CHECKING:
    from gpufleet.results.training import TrainingFit

MethodOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--method", metavar="NAME", help="Ask about training: full, lora or qlora.", rich_help_panel=TRAINING),
]
SequenceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--seq", metavar="TOKENS", help="Tokens of a sequence; default 4096.", rich_help_panel=TRAINING),
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
RankOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--rank", metavar="N", help="Rank of adapters; default 16.", rich_help_panel=TRAINING),
]
ModulesOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--modules",
        metavar="NAME,...",
        help="Matrices with adapters: q,k,v,o,gate,up,down, attention, all-linear (default).",
        rich_help_panel=TRAINING,
    ),
]
OptimizerOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--optimizer", metavar="NAME", help="adamw (default) or adamw-8bit.", rich_help_panel=TRAINING),
]
LayoutOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--layout",
        metavar="NAME=N,...",
        help="Fix parts of the layout: tp=4,pp=2,recompute=full,sharding=zero-3.",
        rich_help_panel=TRAINING,
    ),
]
OffloadOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--offload",
        metavar="WHAT,...",
        help="Keep optimizer, activations or weights in host memory.",
        rich_help_panel=TRAINING,
    ),
]
EagerOption = Annotated[bool, typer.Option("--eager", help="Kernels are not fused.", rich_help_panel=TRAINING)]
OF_TRAINING = ("seq", "micro_batch", "rank", "modules", "optimizer", "layout", "offload", "eager")
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
    return 0 if result.fits else Infeasible.exit_code


def fitted(model: str, gpus: str, flags: TrainingFlags) -> TrainingFit:
    """What was typed, read and put to the api."""
    from gpufleet.api.training_fits import fit_training

    return fit_training(
        model,
        gpus,
        flags.method,
        sequence_tokens=None if flags.seq is None else parse_tokens(flags.seq),
        micro_batch=flags.micro_batch,
        rank=flags.rank,
        modules=None if flags.modules is None else words(flags.modules),
        precision=flags.precision,
        optimizer=flags.optimizer,
        layout=",".join(flags.layout) if flags.layout else None,
        offload=None if flags.offload is None else words(flags.offload),
        eager=flags.eager,
    )
