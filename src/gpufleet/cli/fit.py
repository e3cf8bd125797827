"""`gpufleet fit`: does this model fit these GPUs, and for how many users."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpufleet.cli.asking import Typed, asking
from gpufleet.cli.emit import emit, format_of
from gpufleet.cli.grouped_help import GroupedCommand
from gpufleet.cli.options import ExplainOption, OutFileOption, OutputFormat, OutputOption, model_argument, verb
from gpufleet.errors import Infeasible, UsageError
from gpufleet.questions.fit import USUAL_CONTEXT, FitRequest, TrainingFitRequest
from gpufleet.questions.words import LOAD, FileUse, filled, words_of

app = verb()

AnyModelArgument = Annotated[Optional[str], model_argument("[MODEL]"), FileUse.MAYBE_READ]  # noqa: UP045
OwnedOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--owned", metavar="MACHINES", help="Machines that you have: '2 x 8 RTX-4090'.", rich_help_panel=LOAD),
]
AllModelsOption = Annotated[
    bool, typer.Option("--all-models", help="Which shipped models fit machines of your own.", rich_help_panel=LOAD)
]
OF_SERVING, OF_TRAINING = words_of(FitRequest), words_of(TrainingFitRequest)


@app.command(cls=GroupedCommand)
@asking(FitRequest, TrainingFitRequest)
def fit(
    asked: Typed,
    model: AnyModelArgument = None,
    owned: OwnedOption = None,
    all_models: AllModelsOption = False,
    explain: ExplainOption = False,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> int:
    """Does a model fit these GPUs: layout, weights, room for KV cache, users; exit code 3 when it does not.

    With --method: does training or fine-tuning it fit, and what would make it fit.
    """
    method = asked.words.text("method")
    refuse_mixed(asked, method, all_models=all_models)
    if method is not None:
        return training_fit(asked, model, owned, explain, output, out_file)
    if all_models:
        return every_model(asked, model, owned, output, out_file)
    from gpufleet.api import fit as fit_model
    from gpufleet.report.fit import fit_page

    request = asked.request(FitRequest, stated(model, "MODEL", "a name, or --owned MACHINES --all-models"))
    result = fit_model(filled(request, gpus=gpus_of(request.gpus, owned)))
    emit(result, fit_page(result, explain=explain), output, out_file)
    return result.exit_code


def refuse_mixed(asked: Typed, method: str | None, *, all_models: bool) -> None:
    """Options of serving say nothing of training, and options of training need a method."""
    here, other = (OF_SERVING, OF_TRAINING) if method is None else (OF_TRAINING, OF_SERVING)
    said = [row.flag for name, row in other.items() if name in asked.words.words and name not in here]
    if said and method is None:
        hint = "--method full, lora or qlora with them"
        raise UsageError(f"{', '.join(said)} of training without --method", expected=hint)
    if method is not None and (said or all_models):
        said += ["--all-models"] if all_models else []
        expected = "options of training alone, or no --method"
        raise UsageError(
            f"{', '.join(said)} of serving next to --method", found=f"--method {method}", expected=expected
        )


def training_fit(
    asked: Typed,
    model: str | None,
    owned: str | None,
    explain: bool,
    output: OutputFormat | None,
    out_file: str | None,
) -> int:
    """The page of a fit of training; its exit code."""
    from gpufleet.api.training_fits import fit_training
    from gpufleet.report.training_fit import training_fit_page

    request = asked.request(TrainingFitRequest, stated(model, "MODEL", "a name or a config.json"))
    result = fit_training(filled(request, gpus=gpus_of(request.gpus, owned)))
    is_html = (output or format_of(out_file)) is OutputFormat.HTML
    emit(result, training_fit_page(result, explain=explain or is_html), output, out_file)
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
    asked: Typed, model: str | None, owned: str | None, output: OutputFormat | None, out_file: str | None
) -> int:
    """Which models fit machines of one's own, for how many users."""
    from gpufleet.api.fits_of_machines import fit_all
    from gpufleet.catalog.engines import DEFAULT_ENGINE
    from gpufleet.report.machine_fits import machine_fits_page

    said = asked.words.over(asked.preferred)
    named = [name for name, value in (("MODEL", model), ("--gpus", said.text("gpus"))) if value is not None]
    if named:
        problem = "--all-models asks for every model on your machines"
        raise UsageError(problem, found=" and ".join(named), expected="--owned alone")
    machines = stated(owned, "--owned", "machines that you have, such as '2 x 8 RTX-4090'")
    result = fit_all(machines, said.text("context") or USUAL_CONTEXT, engine=said.text("engine") or DEFAULT_ENGINE)
    emit(result, machine_fits_page(result), output, out_file)
    return 0 if result.is_feasible else Infeasible.exit_code
