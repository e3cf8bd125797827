"""How fast is one replica, in one layout, under one load."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.beside import with_beside
from gpufleet.answers.serving_estimate import serving_estimate
from gpufleet.api.configured import (
    as_said,
    client_of,
    configured,
    started_engine,
    told_engine,
    understood,
)
from gpufleet.api.demands import checked_lengths, image_tokens, mean_of, refuse_beyond_start, workload_of
from gpufleet.api.envelope import in_full
from gpufleet.api.launches import estimate_launch
from gpufleet.api.pools import AskedPools, asked_pools, estimate_pools
from gpufleet.api.remarks import remarks_on_load
from gpufleet.api.speculating import drafting, with_draft, without_drafts
from gpufleet.api.spoken import spoken
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.calibration import calibration_of, curve_names
from gpufleet.catalog.engine_eras import older_than_measured, version_notes
from gpufleet.catalog.engine_models import family_notes
from gpufleet.catalog.engine_starts import started_for, started_of
from gpufleet.catalog.engines import named_version, usual_engine
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.peer_access import with_peer_access
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.errors import GpufleetError, OutOfMemory, UsageError
from gpufleet.inputs.gpu_request import PoolRequest, gpus_said
from gpufleet.inputs.model_config import model_asked
from gpufleet.optimize.beside import beside_copies
from gpufleet.optimize.estimate import (
    EVERY_FIGURE,
    MOST_SEQUENCES,
    EstimateQuestion,
    EstimateSolution,
    Load,
    solve_estimate,
)
from gpufleet.performance.serving import Lengths
from gpufleet.performance.uncertainty import drafted_log
from gpufleet.questions.estimate import EstimateRequest
from gpufleet.questions.fields import RequestKind
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.report.numbers import duration
from gpufleet.results.base import Input
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import GIB

WHOLE = {"closed_loop": "clients (concurrency)", "static_batch": "sequences (batch)"}
ONE_COPY = (None, 1, None, 1)


def estimate(
    model: EstimateRequest | str | PathLike[str] | Architecture,
    gpus: str | tuple[str, int] | None = None,
    *,
    launch: bool = True,
    catalog: Catalog | None = None,
    **said: Any,
) -> ServingEstimate:
    """Latency and throughput of one replica with ranges, under exactly one kind of load.

    `EstimateRequest` (questions.estimate) has what may be said: layout, formats, engine, lengths and loads. The
    answer holds the command that starts the replica, unless `launch` is False.

    >>> e = estimate("llama-3.1-8b", "H100:1", input_tokens=1000, output_tokens=200, concurrency=16)
    >>> e.tpot_s.low < e.tpot_s.value < e.tpot_s.high
    True
    """
    asked = spoken(EstimateRequest, model, said if gpus is None else {"gpus": gpus, **said})
    tables = load_catalog() if catalog is None else catalog
    return in_full(estimated(asked, tables, has_launch=launch), tables, asked)


def estimated(asked: EstimateRequest, tables: Catalog, *, has_launch: bool) -> ServingEstimate:
    """The answer of a question."""
    if asked.requests is not None and not asked.full_queue:
        from gpufleet.api.request_runs import estimated_run

        return estimated_run(asked, tables, lambda steady: estimated(steady, tables, has_launch=has_launch))
    refuse_out_of_range(asked)
    model = asked.model
    read = model_asked(model, shipped_architecture)
    start = started_of(asked)
    arch = with_draft(started_for(with_images(read, asked.images), start), asked)
    named, said_version = named_version(asked.engine, asked.engine_version)
    engine = usual_engine(arch) if named is None else named
    ranks = (asked.tp, asked.pp, asked.ep, asked.attention_dp)
    split = pools_instead(asked.gpus, asked.prefill, asked.decode, ranks, explain=asked.explain)
    profile = drafting(told_engine(started_engine(engine, said_version, start), asked), arch, asked)
    load = checked_load(asked.concurrency, asked.rate, asked.batch, queued_requests(asked.full_queue, asked.requests))
    client = client_of(asked)
    workload = estimated_workload(arch, asked.input_tokens, asked.output_tokens, load, asked.prefix_cache)
    version, formats = notes_on_version(profile, arch, said_version), (asked.precision, asked.kv_precision)
    if split is not None:
        refuse_of_one_copy(asked)
        answer = estimate_pools(tables, arch, profile, split, formats, workload, load, client, asked.instance)
        return answer.model_copy(update={"notes": [*version, *answer.notes], "inputs": as_said(answer.inputs, asked)})
    name, number = gpus_said(asked.gpus)
    tables = with_peer_access(tables, [resolve_gpu(tables, name).accelerator.name], asked.peer_to_peer)
    replica = configured(tables, arch, name, profile, (number, *ranks), *formats, asked.instance)
    question = EstimateQuestion(arch, replica.candidates, workload, load, client)
    solution = solve_estimate(question, calibration_of(tables))
    if not solution.fits:
        raise does_not_fit(question, solution, arch.name if isinstance(model, Architecture) else str(model))
    peers = peer_note(
        replica.candidates,
        asked.peer_to_peer,
        lambda access: estimated(replace(asked, peer_to_peer=access, explain=False), tables, has_launch=False),
    )
    drafts = gain_of_drafts(
        profile,
        solution,
        question.lengths,
        lambda: estimated(replace(without_drafts(asked), explain=False), tables, has_launch=False),
    )
    notes = [*drafts, *replica.notes, *peers, *version, *remarks_on_load(question, solution)]
    rows = [*as_said(replica.inputs, asked), *peer_rows(replica.candidates, asked.peer_to_peer)]
    inputs = [*rows, *understood(question.workload, question.load)]
    answer = serving_estimate(question, solution, inputs, notes)
    prompt, known = float(question.lengths.input_tokens), calibration_of(tables).formulas
    answer = with_beside(answer, beside_copies(arch, replica.candidates, prompt, known, solution.model)[0])
    if asked.explain:
        answer = explained(answer, question, solution, tables)
    return answer.model_copy(update={"launch": estimate_launch(model, question, solution)}) if has_launch else answer


def refuse_of_one_copy(asked: EstimateRequest) -> None:
    """Refuse what is said of one copy where there are two pools."""
    for what, word, value in (
        ("drafts are", "speculate", asked.speculate),
        ("peer-to-peer access is", "peer-to-peer", asked.peer_to_peer),
    ):
        if value is not None:
            raise UsageError(f"{what} said of one copy", expected=f"--gpus with --{word}")


def gain_of_drafts(
    engine: EngineProfile, solution: EstimateSolution, lengths: Lengths, otherwise: Callable[[], ServingEstimate]
) -> list[str]:
    """What drafts gain or lose of the time per token; `otherwise` estimates without them."""
    if engine.drafts is None or solution.serving is None:
        return []
    plain, drafted = otherwise(), solution.serving
    faster, slower = np.exp(drafted_log(solution.model.candidates))[:, 0]
    gain = plain.tpot_s.value / float(drafted.tpot_s[0])
    done = float(drafted.output_tokens_per_s(lengths)[0]) / plain.output_tokens_per_s.value
    low, high = min(gain, done) / slower, gain * faster
    verdict = "Drafts pay" if low >= 1 else "Drafts lose; start it without them" if high <= 1 else "Drafts may lose"
    return [
        f"{verdict}: a user's tokens come {gain:.2f} times as fast ({gain / slower:.2f} to {high:.2f}), the copy "
        f"writes {done:.2f} times as many; without drafts a token takes {duration(plain.tpot_s.value)}"
    ]


def pools_instead(
    gpus: str | tuple[str, int] | None,
    prefill: str | PoolRequest | None,
    decode: str | PoolRequest | None,
    ranks: tuple[int | None, int, int | None, int],
    *,
    explain: bool,
) -> AskedPools | None:
    """Both pools where they stand in place of the GPUs of one copy; None where GPUs do."""
    if prefill is None and decode is None:
        if gpus is None:
            raise UsageError("the GPUs are missing", expected="--gpus NAME:N, or --prefill and --decode")
        return None
    if gpus is not None:
        raise UsageError("GPUs and pools are two questions", expected="--gpus alone, or --prefill with --decode")
    if ranks != ONE_COPY:
        raise UsageError("each pool states its own layout", expected="ranks in the pool, such as '2x H100:4 TP2 DP2'")
    if explain:
        raise UsageError("only one copy is explained", expected="--gpus with --explain, for a copy of each pool")
    return asked_pools(prefill, decode)


def notes_on_version(engine: EngineProfile, arch: Architecture, version: str | None) -> list[str]:
    """Warnings about the version of an engine, whether its times were measured, and whether it knows the model."""
    older = older_than_measured(engine.name, version)
    return [*version_notes(engine.name, version), *([older] if older else []), *family_notes(engine, arch)]


@lru_cache(maxsize=256)
def estimated_workload(
    arch: Architecture,
    input_tokens: float | TokenCounts,
    output_tokens: float | TokenCounts,
    load: Load,
    prefix_cache: float | None = None,
) -> Workload:
    """Requests at a rate as a plan takes them, whatever the rate; under the other loads, one like the other."""
    if load.scenario == "open_loop":
        return workload_of([RequestKind("", 1.0, input_tokens, output_tokens, EVERY_FIGURE, prefix_cache)], arch)
    if prefix_cache is not None:
        raise UsageError(
            "a prefix cache is estimated at a rate", found=load.scenario.replace("_", " "), expected="--rate"
        )
    for tokens in (input_tokens, output_tokens):
        if isinstance(tokens, TokenCounts) and not tokens.is_alike:
            raise UsageError("lengths that differ are estimated at a rate", found=load.scenario.replace("_", " "),
                             expected="--rate, or one number of tokens")  # fmt: skip
    lengths = checked_lengths(mean_of(input_tokens) + image_tokens(arch), mean_of(output_tokens))
    refuse_beyond_start(arch, float(lengths.input_tokens + lengths.output_tokens))
    return Workload(float(lengths.input_tokens), float(lengths.output_tokens))


def explained(
    answer: ServingEstimate, question: EstimateQuestion, solution: EstimateSolution, tables: Catalog
) -> ServingEstimate:
    """The same with the steps by operation, and what would be faster."""
    from gpufleet.answers.estimate_explained import explanation

    reasons = explanation(question, solution, calibration_of(tables), curve_names())
    return answer.model_copy(update={"explanation": reasons})


def does_not_fit(question: EstimateQuestion, solution: EstimateSolution, asked: str) -> OutOfMemory:
    """By how much a configuration misses, and the question that says what would fit."""
    c, lengths = question.candidates, question.lengths
    gpu, weights = c.palette.accelerators[c.accelerator[0]].name, c.palette.weight_formats[0].name
    number, context = int(c.num_devices[0]), math.ceil(float(lengths.input_tokens + lengths.output_tokens))
    layout = Layout(int(c.tp[0]), int(c.pp[0]), int(c.ep[0]), int(c.attention_dp[0]))
    told = question.arch.max_model_len
    longest = f" --max-model-len {told}" if told else ""
    return OutOfMemory(
        f"{question.arch.name} in {weights} does not fit {number}x {gpu} ({layout.label})",
        **what_is_missing(solution),
        hint=f"'gpufleet fit {asked} --gpus {gpu}:{number} --context {context}{longest}' shows what would.",
    )


def what_is_missing(solution: EstimateSolution) -> dict[str, str]:
    """By how much each GPU is short, or what a stated memory fraction leaves for what comes after the KV pool."""
    budgets = solution.budgets
    if not np.all(budgets.lacks_room_beside):
        return {"found": f"short by {solution.short_by_gib:.1f} GiB per GPU"}
    after = budgets.after_pool_bytes.expected
    figures = (budgets.memory_fraction, (after + budgets.left_beside_bytes.expected) / GIB, after / GIB)
    fraction, left, needed = (float(np.max(np.asarray(figure))) for figure in figures)
    return {
        "found": f"memory fraction {fraction:.3g} leaves {left:.2f} GiB beside the pool",
        "expected": f"{needed:.2f} GiB, which graphs, context and unprofiled activations take after it",
    }


def queued_requests(full_queue: bool, requests: float | None) -> float | None:
    """Requests that wait at once in a full queue, infinitely many unless said; None: there is no such queue."""
    return (math.inf if requests is None else requests) if full_queue else None


def checked_load(concurrency: float | None, rate: float | None, batch: float | None, queued: float | None) -> Load:
    """Exactly one kind of load; `queued` requests wait at once, infinitely many in a queue that never empties."""
    given = {"closed_loop": concurrency, "open_loop": rate, "static_batch": batch, "full_queue": queued}
    stated = [(scenario, amount) for scenario, amount in given.items() if amount is not None]
    if len(stated) != 1:
        raise UsageError("state one load", expected="exactly one of concurrency, rate, batch and full queue")
    scenario, amount = stated[0]
    if scenario in WHOLE and math.isfinite(amount) and amount != round(amount):
        raise UsageError(f"{WHOLE[scenario]} are whole", found=f"{amount:g}", expected="a number such as 2 or 3")
    if not amount > 0 or (amount > MOST_SEQUENCES and scenario != "full_queue"):
        raise UsageError(f"the load must be from above 0 to {MOST_SEQUENCES:,}", found=amount)
    return Load(scenario, float(amount))


def has_peer_access(candidates: Candidates) -> bool:
    """Whether the GPUs of the first candidate reach each other without the host."""
    gpu = candidates.palette.accelerators[int(candidates.accelerator[0])]
    return gpu.peer_to_peer and not candidates.through_host[0]


def is_asked_over_pcie(candidates: Candidates) -> bool:
    """Whether a copy of the first candidate exchanges anything over PCIe."""
    return bool(candidates.link_is_pcie[0]) and int(candidates.devices_per_stage[0]) > 1


def peer_rows(candidates: Candidates, said: bool | None) -> list[Input]:
    """Whether its GPUs reach each other without the host, where they exchange anything over PCIe."""
    if not is_asked_over_pcie(candidates):
        return []
    origin = "default" if said is None else "given"
    return [Input(name="peer_to_peer", value="on" if has_peer_access(candidates) else "off", origin=origin)]


def peer_note(candidates: Candidates, said: bool | None, otherwise: Callable[[bool], ServingEstimate]) -> list[str]:
    """The time per token with the other access, where nobody said which there is; `otherwise` estimates with one."""
    if said is not None or not is_asked_over_pcie(candidates):
        return []
    has_access = has_peer_access(candidates)
    try:
        other = f"TPOT is {duration(otherwise(not has_access).tpot_s.value)}"
    except GpufleetError:
        other = "this load is not held"
    if has_access:
        return [
            "The GPUs are taken to reach each other over PCIe without the host, which many virtual machines do not "
            f"allow: without it {other} (--peer-to-peer off)"
        ]
    return [
        "The drivers or hosts of these GPUs make them exchange through the memory of the host: where they reach each "
        f"other without it {other} (--peer-to-peer on)"
    ]
