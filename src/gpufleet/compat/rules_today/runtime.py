"""Runtime: the seeds' roofline beside our latency of the same tokens, and their training times beside ours."""

from __future__ import annotations

from typing import Any

from gpufleet.api import estimate
from gpufleet.architecture.parameters import num_active_parameters
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import resolve_gpu
from gpufleet.compat.rules.runtime import (
    FLOP_PER_PARAMETER_INFERENCE,
    FLOP_PER_PARAMETER_TRAINING,
    SEED_GPUS,
    TRAINING_RUNS,
    GPUSpec,
    TrainingRun,
    WorkloadProfile,
    estimate_runtime,
    training_hours,
    unrounded_runtime,
)
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, bound, given
from gpufleet.compat.rules_today.questions import RuntimeQuestion
from gpufleet.compat.rules_today.stand_ins import StandIn, billions, model_of, sized, training_flop_per_token
from gpufleet.compat.rules_today.trained import (
    HELD_BY_NONE,
    METHOD_NAMES,
    Trained,
    gpus_words,
    placed_or_not,
    rate_of,
    time_of,
    training_notes,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.training import Method
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.report.numbers import amount, duration
from gpufleet.results.base import Figure, Input
from gpufleet.results.estimate import ExplainedStep, ServingEstimate
from gpufleet.results.training import TrainingEstimate
from gpufleet.units import GB, GIGA, HOUR, MEGA, PERCENT, TERA

SOURCE = "GPU Infrastructure & Computational Requirements, 'Compute Architecture'"
REAL_GPUS = {"consumer": "RTX-3090", "datacenter": "A100-80GB"}
TRAINED_MODELS = {
    "GPT-2 Small": "gpt2",
    "GPT-2 Large": "gpt2-large",
    "GPT-J 6B": "gpt-j-6b",
    "Llama-7B": "llama-7b",
    "Llama-65B": "llama-65b",
}
TRAINED_ON = {"T4": "T4", "V100": "V100", "A100 40GB": "A100-40GB", "A100 80GB": "A100-80GB"}
BOTTLENECKS = {"compute": "arithmetic", "bandwidth": "memory", "latency": "kernel latency", "link": "the link"}
RATES = {"fp16": ("fp16", "bf16"), "fp32": ("fp32",)}


def runtime_answer(q: RuntimeQuestion) -> RuleAnswer:
    """The seeds' time, cost and energy on each GPU beside ours; then their training times beside ours."""
    q = sized(q)
    size_b, stand_in, workload = billions(q.parameters), model_of(q.model, q.parameters), q.workload()
    kind = "training on" if q.training else "inference of"
    stands = (f"{REAL_GPUS[name]} stands for '{name}'." for name in q.gpus if name in REAL_GPUS)
    notes = [stand_in.note, *notes_of_training(q, stand_in), *stands]
    return RuleAnswer(
        rule="runtime",
        question=f"Time for {kind} {q.tokens:,.0f} tokens: {size_b:,.3g}B in {q.precision}.",
        source=SOURCE,
        inputs=inputs(q, workload),
        tables=[
            *(gpu_table(q, name, workload, stand_in) for name in q.gpus),
            RuleTable(title=f"training on {millions(q.training_tokens)} tokens", rows=training_rows(q)),
        ],
        differences=[*differences(q), *mixture(stand_in)],
        notes=[operations_counted(q, workload), *notes],
    )


def notes_of_training(q: RuntimeQuestion, stand_in: StandIn) -> list[str]:
    """What a step of our training works on."""
    if not q.training:
        return []
    gpus = [named_gpu(spec_of(name, q)[1]) for name in q.gpus]
    each = [Trained(load_catalog(), stand_in.architecture, gpu, q.precision) for gpu in gpus]
    words = f"Ours trains sequences of {each[0].read_tokens:,.0f} tokens: all weights in steps of 4M, adapters of 131k."
    return [words, *dict.fromkeys(note for trained in each for note in training_notes(trained))]


def inputs(q: RuntimeQuestion, workload: WorkloadProfile) -> list[Input]:
    """What was said, and what was taken from the seed's own example."""
    return [
        given("parameters", f"{billions(q.parameters):,.3g}B", "parameters" in q.said),
        given("tokens", f"{q.tokens:,.0f}", "tokens" in q.said),
        given("precision", q.precision, "precision" in q.said),
        given("memory moved", f"{workload.memory_accessed_gb:g} GB", q.memory_accessed_gb is not None),
        given("efficiency", f"{q.efficiency:g}", "efficiency" in q.said),
    ]


def operations_counted(q: RuntimeQuestion, workload: WorkloadProfile) -> str:
    """The seed's count of operations, which nobody is asked for."""
    each = FLOP_PER_PARAMETER_TRAINING if q.training else FLOP_PER_PARAMETER_INFERENCE
    factors = f"{each} x {billions(q.parameters):,.3g}B parameters x {q.tokens:,.0f} tokens"
    return f"The seed counts {workload.total_flops:.3g} operations: {factors}."


def millions(tokens: float) -> str:
    """Tokens as the seed says them: 100M."""
    return f"{tokens / MEGA:,.4g}M"


def spec_of(name: str, q: RuntimeQuestion) -> tuple[GPUSpec, str]:
    """The seed's sample GPU of that name or one of the catalog, and the GPU that answers for us."""
    if name in SEED_GPUS:
        spec = SEED_GPUS[name]
        price = spec.cost_per_hour if q.price_usd_per_hour is None else q.price_usd_per_hour
        fields = {**vars(spec), "cost_per_hour": price}
        return GPUSpec(**fields), REAL_GPUS[name]
    gpu = named_gpu(name)
    return catalog_spec(gpu, q.price_usd_per_hour or 0.0), gpu.name


def named_gpu(name: str) -> Accelerator:
    """A GPU of the catalog; the seed's two samples are among the names that an error offers."""
    tables = load_catalog()
    try:
        return resolve_gpu(tables, name).accelerator
    except UnknownName:
        known = [*SEED_GPUS, *tables.accelerators, *tables.gpu_aliases]
        raise UnknownName("GPU", name, known, hint="'gpufleet catalog gpus' lists all.") from None


def catalog_spec(gpu: Accelerator, price_usd_per_hour: float) -> GPUSpec:
    """A GPU of the catalog in the seed's terms; its fp16 rate is dense."""
    peaks = gpu.peak_flop_per_s
    half = peaks.get("fp16") or peaks.get("bf16")
    if half is None or "fp32" not in peaks:
        raise UsageError(f"{gpu.name} has no rates for this rule", expected="a GPU with fp32 and fp16 rates")
    return GPUSpec(
        name=gpu.name,
        fp32_tflops=peaks["fp32"] / TERA,
        fp16_tflops=half / TERA,
        memory_gb=gpu.marketed_memory_gb,
        memory_bandwidth_gbps=gpu.bandwidth_bytes_per_s / GB,
        tdp_watts=gpu.board_power_watts or 0.0,
        cost_per_hour=price_usd_per_hour,
    )


def gpu_table(q: RuntimeQuestion, name: str, workload: WorkloadProfile, stand_in: StandIn) -> RuleTable:
    """The seed's breakdown on one GPU."""
    spec, real = spec_of(name, q)
    rule = rule_without_zeros(spec, workload, q.efficiency)
    ours = training_time_rows(q, rule, real, stand_in) if q.training else token_rows(q, rule, real, stand_in)
    return RuleTable(
        title=spec.name,
        rows=[
            RuleRow(name="arithmetic", unit="s", seed=rule["compute_time_sec"]),
            RuleRow(name="memory", unit="s", seed=rule["memory_time_sec"]),
            *ours,
            RuleRow(name="use of the arithmetic", seed=rule["compute_utilization"]),
            RuleRow(name="cost", unit="USD", seed=rule["cost_usd"] if spec.cost_per_hour else "unknown: --price"),
            RuleRow(name="energy", unit="kWh", seed=rule["energy_kwh"]),
        ],
    )


def rule_without_zeros(spec: GPUSpec, workload: WorkloadProfile, efficiency: float) -> dict[str, Any]:
    """The seed's figures as it rounds them; where that leaves nothing of something, before rounding."""
    exact = unrounded_runtime(spec, workload, efficiency)
    return {name: value or exact[name] for name, value in estimate_runtime(spec, workload, efficiency).items()}


def token_rows(q: RuntimeQuestion, rule: dict[str, Any], gpu: str, stand_in: StandIn) -> list[RuleRow]:
    """Reading a prompt of these tokens at once, and writing as many one after the other, alone on the GPU."""
    reading, writing = alone(q, gpu, stand_in, q.tokens, 1), alone(q, gpu, stand_in, 1, q.tokens)
    return [
        time_row("time to read them", rule, *latency(reading)),
        time_row("time to write them", rule, *latency(writing)),
        RuleRow(name="bottleneck", seed=str(rule["bottleneck"]), ours_text=bottlenecks(reading, writing)),
    ]


def alone(q: RuntimeQuestion, gpu: str, stand_in: StandIn, read: float, written: float) -> ServingEstimate | str:
    """One request alone on the GPU with its steps by operation, or why there is no answer."""
    try:
        return estimate(
            stand_in.asked,
            (gpu, 1),
            input_tokens=read,
            output_tokens=written,
            batch=1,
            precision=q.precision,
            explain=True,
            launch=False,
        )
    except Infeasible as error:
        return error.problem


def latency(answer: ServingEstimate | str) -> tuple[Figure | None, str]:
    """Seconds of a request, or why there is no answer."""
    return (None, answer) if isinstance(answer, str) else (answer.latency_s, "")


def time_row(name: str, rule: dict[str, Any], ours: Figure | None, said: str) -> RuleRow:
    """The seed's one time beside ours."""
    return RuleRow(name=name, unit="s", seed=rule["actual_time_sec"], ours=ours, ours_text=said)


def bottlenecks(reading: ServingEstimate | str, writing: ServingEstimate | str) -> str:
    """What takes most of a prompt, and of a token that is written; nothing where either has no answer."""
    if isinstance(reading, str) or isinstance(writing, str) or not (reading.explanation and writing.explanation):
        return ""
    return f"{bottleneck(reading.explanation.prefill)} to read, {bottleneck(writing.explanation.decode)} to write"


def bottleneck(step: ExplainedStep) -> str:
    """What bounds the operations that take most of a step."""
    seconds = {bound: sum(o.seconds for o in step.operations if o.bound == bound) for bound in BOTTLENECKS}
    return BOTTLENECKS[max(seconds, key=lambda bound: seconds[bound])]


def training_time_rows(q: RuntimeQuestion, rule: dict[str, Any], gpu: str, stand_in: StandIn) -> list[RuleRow]:
    """All weights, then adapters, on the fewest of these GPUs that hold them; and the least that the peak allows."""
    tables = load_catalog()
    accelerator = resolve_gpu(tables, gpu).accelerator
    trained = Trained(tables, stand_in.architecture, accelerator, q.precision)
    flop = training_flop_per_token(stand_in.architecture) * q.tokens
    least_s = flop / peak_flop_per_s(accelerator, q.precision)
    return [
        *tokens_trained(trained, Method.FULL, q.tokens, rule),
        *tokens_trained(trained, Method.LORA, q.tokens),
        *tokens_trained(trained, Method.QLORA, q.tokens),
        RuleRow(name="least on one GPU", unit="s", ours=bound(least_s, "s"), ours_text="at the whole peak, a bound"),
        RuleRow(name="bottleneck", seed=str(rule["bottleneck"])),
    ]


def tokens_trained(
    trained: Trained, method: Method, tokens: float, rule: dict[str, Any] | None = None
) -> list[RuleRow]:
    """Time and rate of one way to train on the fewest GPUs that hold it, beside the rule's where it has one."""
    counts, name = trained.counts(method), METHOD_NAMES[method]
    found, seed_s = counts.fewest(), None if rule is None else float(rule["actual_time_sec"])
    if found is None:
        return [RuleRow(name=f"time, {name}", unit="s", seed=seed_s, ours_text=placed_or_not(counts, None))]
    rate, time = rate_of(found), time_of(found, tokens, "s", 1.0)
    seed_rate = tokens / seed_s if seed_s else None
    return [
        RuleRow(name=f"time, {name}", unit="s", seed=seed_s, ours=time, ours_text=on_gpus(found, time)),
        RuleRow(name=f"rate, {name}", unit="tokens/s", seed=seed_rate, ours=rate, ours_text=rate.grade),
    ]


def on_gpus(found: TrainingEstimate, time: Figure) -> str:
    """The GPUs and their layout; a long time in hours or days too."""
    return f"{duration(time.value)} on {gpus_words(found)}" if time.value >= HOUR else f"on {gpus_words(found)}"


def peak_flop_per_s(gpu: Accelerator, precision: str) -> float:
    """Dense peak of the arithmetic that a training in this precision runs in."""
    names = RATES.get(precision, ("fp16", "bf16"))
    return max(gpu.peak_flop_per_s.get(name, 0.0) for name in names)


def training_rows(q: RuntimeQuestion) -> list[RuleRow]:
    """The seed's five runs, and one of the user's own rate."""
    rows = [training_row(run, q.training_tokens) for run in TRAINING_RUNS]
    if q.tokens_per_s is not None:
        hours = training_hours(q.training_tokens, q.tokens_per_s)
        rows.append(RuleRow(name=f"yours at {q.tokens_per_s:,g}/s", unit="h", seed=round(hours, 2)))
    return rows


def training_row(run: TrainingRun, tokens: float) -> RuleRow:
    """Hours by the seed's rate; ours on the same GPUs where they hold all weights, else with adapters."""
    tables = load_catalog()
    gpu = resolve_gpu(tables, TRAINED_ON[run.gpu]).accelerator
    arch = shipped_architecture(TRAINED_MODELS[run.model])
    hours = training_hours(tokens, run.tokens_per_s)
    trained = Trained(tables, arch, gpu, is_from_nothing=False)
    method, found = first_held(trained, run.num_gpus)
    least_s = tokens * training_flop_per_token(arch) / (run.num_gpus * peak_flop_per_s(gpu, "fp16"))
    said = [f"{METHOD_NAMES[method]}, {found.speed.tokens_per_s_per_gpu.grade}"] if found else []
    said += [held_by(trained, run)] if method is not Method.FULL else []
    said += [f"the seed's uses {PERCENT * least_s / (hours * HOUR):.1f}% of the peak"]
    several = f"{run.num_gpus}x " if run.num_gpus > 1 else ""
    return RuleRow(
        name=f"{run.model}, {several}{run.gpu}",
        unit="h",
        seed=round(hours, 2),
        ours=time_of(found, tokens, "h", HOUR) if found else None,
        ours_text="; ".join(said),
    )


def first_held(trained: Trained, num_gpus: int) -> tuple[Method, TrainingEstimate | None]:
    """All weights, else LoRA, else QLoRA: the first that so many GPUs hold."""
    rated = ((method, trained.counts(method).fastest(num_gpus)) for method in METHOD_NAMES)
    return next(((method, found) for method, found in rated if found is not None), (Method.QLORA, None))


def held_by(trained: Trained, run: TrainingRun) -> str:
    """How many GPUs of a run's kind hold all weights, where those that it names do not."""
    found = trained.counts().fewest()
    return f"all weights take {found.num_gpus}x {run.gpu}" if found else HELD_BY_NONE


def mixture(stand_in: StandIn) -> list[str]:
    """What the rule counts that a token of a mixture of experts does not meet."""
    active = num_active_parameters(stand_in.architecture)
    if active == stand_in.parameters:
        return []
    billion = (amount(number / GIGA) for number in (active, stand_in.parameters))
    return ["A token meets {}B of the {}B parameters of this mixture; the seed counts all.".format(*billion)]


def differences(q: RuntimeQuestion) -> list[str]:
    """What the rule leaves out."""
    reading = (
        "The seed reads the weights once for all tokens: true of a prompt, not of an answer, which reads them for "
        "every token."
    )
    training = (
        "The seed times one GPU whether or not it holds the training; ours takes the fewest that do, in their fastest "
        "layout, with recomputation, exchange between GPUs and the optimizer's step, and loses nothing to stops."
    )
    return [
        training if q.training else reading,
        f"One efficiency ({q.efficiency:g}) stands for all kernels and none for memory; ours has a curve for each, and "
        "the engine's own steps.",
        "The hours of training follow from a stated rate alone; ours are of the same GPUs. Where they do not hold all "
        "weights, adapters learn instead.",
    ]
