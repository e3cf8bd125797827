"""`gpufleet fit`: does this model fit these GPUs, and for how many users."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.options import (
    EngineOption,
    ExplainOption,
    ImagesOption,
    OutFileOption,
    OutputFormat,
    OutputOption,
    VersionOption,
    model_argument,
    verb,
)
from gpufleet.cli.training_fit import (
    EagerOption,
    LayoutOption,
    MethodOption,
    MicroBatchOption,
    ModulesOption,
    OffloadOption,
    OptimizerOption,
    RankOption,
    SequenceOption,
    StackOption,
    TrainingFlags,
    is_typed,
    refuse_mixed,
    training_fit,
)
from gpufleet.errors import Infeasible, UsageError
from gpufleet.questions.words import ENGINE, LOAD

app = verb()

AnyModelArgument = Annotated[Optional[str], model_argument("[MODEL]")]  # noqa: UP045
GpusOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--gpus", metavar="NAME:N", help="GPU and how many, such as L40S:4.", rich_help_panel=LOAD),
]
OwnedOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--owned", metavar="MACHINES", help="Machines that you have: '2 x 8 RTX-4090'.", rich_help_panel=LOAD),
]
AllModelsOption = Annotated[
    bool, typer.Option("--all-models", help="Which shipped models fit machines of your own.", rich_help_panel=LOAD)
]
ContextOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--context", metavar="TOKENS", help="Tokens of prompt and answer together; default 8k.", rich_help_panel=LOAD
    ),
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--precision",
        metavar="NAME",
        help="Format of weights: bf16, fp8, int4, ...; default: the checkpoint's own. "
        "Of training: bf16-mixed, bf16, fp16, fp8-mixed, ...",
        rich_help_panel=ENGINE,
    ),
]
KvOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--kv-precision", metavar="NAME", help="KV cache: bf16 (default), fp16, fp8 or int8.", rich_help_panel=ENGINE
    ),
]
BatchOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Users that must fit at once; default: one.",
        rich_help_panel=LOAD,
    ),
]


@app.command(cls=GroupedCommand)
def fit(
    typed: typer.Context,
    model: AnyModelArgument = None,
    gpus: GpusOption = None,
    context: ContextOption = None,
    engine: EngineOption = None,
    engine_version: VersionOption = None,
    precision: PrecisionOption = None,
    kv_precision: KvOption = None,
    batch: BatchOption = None,
    images: ImagesOption = None,
    owned: OwnedOption = None,
    all_models: AllModelsOption = False,
    method: MethodOption = None,
    seq: SequenceOption = None,
    micro_batch: MicroBatchOption = None,
    rank: RankOption = None,
    modules: ModulesOption = None,
    optimizer: OptimizerOption = None,
    layout: LayoutOption = None,
    offload: OffloadOption = None,
    stack: StackOption = None,
    eager: EagerOption = False,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Does a model fit these GPUs: layout, weights, room for KV cache, users; exit code 3 when it does not.

    With --method: does training or fine-tuning it fit, and what would make it fit.
    """
    refuse_mixed(typed, method)
    if method is not None:
        format_ = precision if is_typed(typed, "precision") else None
        flags = TrainingFlags(
            method, seq, micro_batch, rank, modules, format_, optimizer, layout, offload, eager, stack
        )
        named = stated(model, "MODEL", "a name or a config.json")
        return training_fit(named, gpus_of(gpus, owned), flags, explain, output, out_file)
    if all_models:
        return every_model(model, gpus, owned, context, engine, output, out_file)
    from gpufleet.api import fit as fit_model
    from gpufleet.report.fit import fit_page

    result = fit_model(
        stated(model, "MODEL", "a name, or --owned MACHINES --all-models"),
        gpus_of(gpus, owned),
        context,
        engine=engine,
        engine_version=engine_version,
        precision=precision,
        kv_precision=kv_precision,
        batch=batch,
        images=images,
    )
    emit(result, fit_page(result, explain=explain), output, out_file)
    return result.exit_code


def stated(value: str | None, name: str, expected: str) -> str:
    """A value that nothing stands in for."""
    if value is None:
        raise UsageError(f"{name} is missing", expected=expected)
    return value


def gpus_of(gpus: str | None, owned: str | None) -> str:
    """The GPUs of a copy: named, or those of one machine that somebody has."""
    if gpus is not None and owned is not None:
        raise UsageError("both --gpus and --owned", expected="one of them")
    if owned is None:
        return stated(gpus, "--gpus", "a GPU and how many, such as 'L40S:4'")
    from gpufleet.catalog.spoken_machines import parse_spoken

    said = parse_spoken(owned)
    return f"{said.gpu}:{said.gpus}"


def every_model(
    model: str | None,
    gpus: str | None,
    owned: str | None,
    context: str | None,
    engine: str | None,
    output: OutputFormat | None,
    out_file: str | None,
) -> int:
    """Which models fit machines of one's own, for how many users."""
    from gpufleet.api.fits import USUAL_CONTEXT
    from gpufleet.api.fits_of_machines import fit_all
    from gpufleet.catalog.engines import DEFAULT_ENGINE
    from gpufleet.report.machine_fits import machine_fits_page

    if model is not None or gpus is not None:
        found = " and ".join(name for name, said in (("MODEL", model), ("--gpus", gpus)) if said is not None)
        raise UsageError("--all-models asks for every model on your machines", found=found, expected="--owned alone")
    machines = stated(owned, "--owned", "machines that you have, such as '2 x 8 RTX-4090'")
    result = fit_all(machines, context or USUAL_CONTEXT, engine=engine or DEFAULT_ENGINE)
    emit(result, machine_fits_page(result), output, out_file)
    return 0 if result.is_feasible else Infeasible.exit_code
