"""`gpufleet fit`: does this model fit these GPUs, and for how many users."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.emit import emit
from gpufleet.cli.options import (
    EngineOption,
    ExplainOption,
    ImagesOption,
    ModelArgument,
    OutFileOption,
    OutputOption,
    VersionOption,
    verb,
)
from gpufleet.errors import Infeasible

app = verb()

GpusOption = Annotated[str, typer.Option("--gpus", metavar="NAME:N", help="GPU and how many, such as L40S:4.")]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="TOKENS", help="Tokens of prompt and answer together: 8k, 32768.")
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--precision", metavar="NAME", help="Format of weights: bf16, fp8, int4, ...; default: the checkpoint's own."
    ),
]
KvOption = Annotated[str, typer.Option("--kv-precision", metavar="NAME", help="KV cache: bf16, fp16, fp8 or int8.")]
BatchOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--batch", metavar="N", min=1, max=1_000_000, help="Users that must fit at once; default: one."),
]


@app.command()
def fit(
    model: ModelArgument,
    gpus: GpusOption,
    context: ContextOption = "8k",
    engine: EngineOption = None,
    engine_version: VersionOption = None,
    precision: PrecisionOption = None,
    kv_precision: KvOption = "bf16",
    batch: BatchOption = None,
    images: ImagesOption = None,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Does a model fit these GPUs: layout, weights, room for KV cache, users; exit code 3 when it does not."""
    from gpufleet.api import fit as fit_model
    from gpufleet.report.fit import fit_page

    result = fit_model(
        model,
        gpus,
        context,
        engine=engine,
        engine_version=engine_version,
        precision=precision,
        kv_precision=kv_precision,
        batch=batch,
        images=images,
    )
    emit(result, fit_page(result, explain=explain), output, out_file)
    return 0 if result.fits else Infeasible.exit_code
