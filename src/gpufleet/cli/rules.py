"""`gpufleet rules`: the seeds' rules of thumb, each beside our model's own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpufleet.cli.options import OutFileOption, OutputFormat, OutputOption, verb_group, words
from gpufleet.errors import UsageError
from gpufleet.units import USD_PER_HOUR

if TYPE_CHECKING:
    from gpufleet.compat.rules_today.answer import RuleAnswer

app = verb_group("Rules of thumb by the seeds' arithmetic, each beside our model's own answer.")


def plausible_price(usd_per_hour: float | None) -> float | None:
    """A price that a machine could have, or nothing: it is free then."""
    if usd_per_hour:
        USD_PER_HOUR.refuse_outside(usd_per_hour, "--price", usd_per_hour)
    return usd_per_hour


ParametersOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--parameters", metavar="N", help="Parameters, such as 7B or 350M; default: those of --model."),
]
SizeArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="[SIZE]", help="Parameters, such as 7B, or a model, such as llama-3.1-8b."),
]
PrecisionOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--precision", metavar="NAME", help="fp32, fp16, bf16, fp8 or int8."),
]
ModelOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--model", metavar="MODEL", help="Model for our own answer; default: the nearest in parameters."),
]
TrainingOption = Annotated[bool, typer.Option("--training", help="Training instead of inference.")]
BatchOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--batch", metavar="N", min=1, max=1_000_000, help="Sequences in a batch."),
]
SequenceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--sequence", metavar="TOKENS", help="Tokens of a sequence, such as 8k; default 2048."),
]
GpuOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--gpu", metavar="NAME", help="GPU whose engine memory is counted; default A100-80GB."),
]
GpuNamesOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--gpu", metavar="NAME,...", help="consumer, datacenter (the seed's two), or GPUs of the catalog."),
]
TokensOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--tokens", metavar="N", help="Tokens to read or write, or to train on."),
]
EfficiencyOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--efficiency", metavar="SHARE", help="Share of the peak; default 60%."),
]
MovedOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--memory-moved", metavar="SIZE", help="Memory read and written, such as 14GB; default: the weights."),
]
PriceOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--price", metavar="USD", min=0, callback=plausible_price, help="Price per hour."),
]
TrainOnOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--train-on", metavar="N", help="Tokens of the table of training times; default 100M."),
]
TokensPerSecondOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--tokens-per-s", metavar="N", help="Your own training rate, as one more row."),
]
NumGpusOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--gpus", metavar="N", min=1, max=4096, help="Number of GPUs; default 8."),
]
StrategyOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--strategy", metavar="NAME,...", help="data, model, pipeline, tensor; all by default."),
]
ModelSizeOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--model-size", metavar="SIZE", help="Memory of the model, such as 14GB; default: --model in FP16."),
]
OverheadOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--overhead", metavar="SHARE", help="Share lost to communication; default 10%."),
]
GpuMemoryOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--gpu-memory", metavar="SIZE", help="Memory of one GPU, such as 24GB; default 80GB."),
]
OneGpuOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--gpu", metavar="NAME", help="GPU for our own answer, instead of a memory size."),
]
ContextOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--context", metavar="TOKENS", help="Tokens of prompt and answer of a user; default 4k, of right-size 2048."
    ),
]
TrainedTokensOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--train-on", metavar="N", help="Tokens to train on, such as 10B; with --within."),
]
WithinOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--within", metavar="TIME", help="Time for them: 24h, 3d, 1week; counts the GPUs that are in time."),
]
UsersOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--users", metavar="N", min=1, max=1_000_000, help="Users at once; default 1."),
]
RightSizeArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="[MODEL]", help="A row of the seed's table, such as 'Llama 7B'; all by default."),
]
InstanceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--instance", metavar="NAME", help="Instance type, such as g5.xlarge."),
]
CountOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--count", metavar="N", min=1, max=1_000_000, help="Number of machines; default 1."),
]
HoursOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--hours", metavar="N", min=0, max=744, help="Hours a month; default 720."),
]
SpotOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--spot", metavar="SHARE", help="What spot saves, by the rule; default 70%."),
]
OffOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--off", metavar="FROM-TO", help="Hours of the day when machines are off, such as 22-6."),
]


@app.command("memory")
def memory(
    size: SizeArgument = None,
    parameters: ParametersOption = None,
    precision: PrecisionOption = None,
    batch: BatchOption = None,
    sequence: SequenceOption = None,
    training: TrainingOption = False,
    model: ModelOption = None,
    gpu: GpuOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Memory of a model by part; by default the seed's example of 7B."""
    parameters, model = sized(size, parameters, model)
    from gpufleet.compat.rules_today.memory import TRAINING_EXAMPLE, MemoryQuestion, memory_answer
    from gpufleet.questions.words import filled
    from gpufleet.units import parse_tokens

    question = filled(
        TRAINING_EXAMPLE if training else MemoryQuestion(),
        parameters=asked_parameters(parameters, model),
        precision=folded(precision),
        batch=batch,
        tokens=None if sequence is None else round(parse_tokens(sequence)),
        model=model,
        gpu=gpu,
    )
    emit_rule(memory_answer(question), output, out_file)


@app.command("runtime")
def runtime(
    size: SizeArgument = None,
    parameters: ParametersOption = None,
    tokens: TokensOption = None,
    precision: PrecisionOption = None,
    training: TrainingOption = False,
    gpu: GpuNamesOption = None,
    efficiency: EfficiencyOption = None,
    memory_moved: MovedOption = None,
    price: PriceOption = None,
    model: ModelOption = None,
    train_on: TrainOnOption = None,
    tokens_per_s: TokensPerSecondOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Time, cost and energy of tokens on a GPU; then hours to train on 100M tokens."""
    parameters, model = sized(size, parameters, model)
    from gpufleet.compat.rules_today.runtime import RuntimeQuestion, runtime_answer
    from gpufleet.questions.words import filled
    from gpufleet.units import GB, parse_bytes, parse_count, parse_ratio

    question = filled(
        RuntimeQuestion.usual(training),
        parameters=asked_parameters(parameters, model),
        tokens=None if tokens is None else parse_count(tokens),
        precision=folded(precision),
        gpus=tuple(words(gpu)) if gpu else None,
        efficiency=None if efficiency is None else parse_ratio(efficiency),
        memory_accessed_gb=None if memory_moved is None else parse_bytes(memory_moved) / GB,
        price_usd_per_hour=price,
        model=model,
        training_tokens=None if train_on is None else parse_count(train_on),
        tokens_per_s=None if tokens_per_s is None else parse_count(tokens_per_s),
    )
    emit_rule(runtime_answer(question), output, out_file)


@app.command("scaling")
def scaling(
    gpus: NumGpusOption = None,
    strategy: StrategyOption = None,
    model_size: ModelSizeOption = None,
    batch: BatchOption = None,
    overhead: OverheadOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Memory, efficiency and speedup of several GPUs, by strategy."""
    from gpufleet.compat.rules.scaling import strategy_of
    from gpufleet.compat.rules_today.scaling import ScalingQuestion, half_precision_gb, scaling_answer
    from gpufleet.questions.words import filled
    from gpufleet.units import GB, parse_bytes, parse_ratio

    question = filled(
        ScalingQuestion(),
        num_gpus=gpus,
        strategies=tuple(map(strategy_of, words(strategy))) if strategy else None,
        model_size_gb=half_precision_gb(model) if model_size is None else parse_bytes(model_size) / GB,
        batch=batch,
        overhead=None if overhead is None else parse_ratio(overhead),
        model=model,
        gpu=gpu,
    )
    emit_rule(scaling_answer(question), output, out_file)


@app.command("gpus")
def gpus(
    size: SizeArgument = None,
    parameters: ParametersOption = None,
    precision: PrecisionOption = None,
    gpu_memory: GpuMemoryOption = None,
    gpu: OneGpuOption = None,
    context: ContextOption = None,
    users: UsersOption = None,
    model: ModelOption = None,
    train_on: TrainedTokensOption = None,
    within: WithinOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Number of GPUs for inference and training, and the size class of a model."""
    parameters, model = sized(size, parameters, model)
    from gpufleet.compat.rules_today.gpus import GpusQuestion, gpus_answer
    from gpufleet.questions.words import filled
    from gpufleet.units import GB, parse_bytes, parse_corpus, parse_duration, parse_tokens

    question = filled(
        GpusQuestion(),
        parameters=asked_parameters(parameters, model),
        precision=folded(precision),
        gpu_memory_gb=None if gpu_memory is None else parse_bytes(gpu_memory) / GB,
        gpu=gpu,
        context_tokens=None if context is None else parse_tokens(context),
        users=users,
        model=model,
        train_on=None if train_on is None else parse_corpus(train_on),
        within_s=None if within is None else parse_duration(within, "'24h' or '3d'"),
    )
    emit_rule(gpus_answer(question), output, out_file)


@app.command("right-size")
def right_size(
    model: RightSizeArgument = None,
    context: ContextOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """The smallest GPU for a model by the seed's table, and the size classes."""
    from gpufleet.compat.rules_today.right_size import right_size_answer
    from gpufleet.units import parse_tokens

    emit_rule(right_size_answer(model, None if context is None else parse_tokens(context)), output, out_file)


@app.command("savings")
def savings(
    instance: InstanceOption = None,
    price: PriceOption = None,
    count: CountOption = None,
    hours: HoursOption = None,
    spot: SpotOption = None,
    off: OffOption = None,
    output: OutputOption = None,
    out_file: OutFileOption = None,
) -> None:
    """Monthly costs, and what spot, commitment and switching off save."""
    from gpufleet.compat.rules_today.savings import SavingsQuestion, parse_night, savings_answer
    from gpufleet.questions.words import filled
    from gpufleet.units import parse_ratio

    question = filled(
        SavingsQuestion(),
        instance=instance,
        price_usd_per_hour=price,
        num_instances=count,
        hours_per_month=hours,
        spot_ratio=None if spot is None else parse_ratio(spot),
        night=None if off is None else parse_night(off),
    )
    emit_rule(savings_answer(question), output, out_file)


def sized(size: str | None, parameters: str | None, model: str | None) -> tuple[str | None, str | None]:
    """Parameters and model where one of them is said without its option: '7B', 'llama-3.1-8b'."""
    if size is None:
        return parameters, model
    is_count = size[:1].isdigit()
    if (parameters if is_count else model) is not None:
        named = "--parameters" if is_count else "--model"
        raise UsageError("the size is said twice", found=f"{size} and {named}", expected="one of them")
    return (size, model) if is_count else (parameters, size)


def asked_parameters(text: str | None, model: str | None) -> float | None:
    """What was typed, else the parameters of the named model; None where neither is."""
    from gpufleet.compat.rules_today.stand_ins import parameters_of
    from gpufleet.units import parse_count

    if text is not None:
        return parse_count(text)
    return None if model is None else parameters_of(model)


def folded(precision: str | None) -> str | None:
    """A precision in small letters, where one was typed."""
    return None if precision is None else precision.casefold()


def emit_rule(answer: RuleAnswer, output: OutputFormat | None, out_file: str | None) -> None:
    """The answer as a page; all rows in one table where it is CSV."""
    from gpufleet.cli.emit import emit, format_of
    from gpufleet.compat.rules_today.page import rule_page, rule_rows_page

    is_csv = (output or format_of(out_file)) is OutputFormat.CSV
    emit(answer, rule_rows_page(answer) if is_csv else rule_page(answer), output, out_file)
