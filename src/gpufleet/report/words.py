"""From the code of a reason or a grade to the sentence that users read: the one place where these are put in words.

A template names the figures of its reason. The suffix of a name is its unit, and says how the figure is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.reason import Figure, Reason, Rejection
from gpufleet.domain.verdict import FITS
from gpufleet.units import GIB, HOUR, MIB, MILLISECOND, MINUTE

if TYPE_CHECKING:
    from gpufleet.results.plan import Deployment

ROUNDING = 1e-9
IN_SECONDS_FROM_S = 10.0
LIMITS = {
    "throughput": "throughput no longer grows with the batch",
    "engine_batch": "the engine's largest batch",
    "one_replica": "one replica is enough",
    "one_machine": "one machine is enough",
    "least_replicas": "the minimum number of replicas",
    "spare_machines": "machines that may fail",
    "deadline": "the deadline",
    "starting": "starting machines",
    "wait_for_spot": "time to wait for spot",
}
SENTENCES: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    # rules of a layout
    "too_few_layers": "{layers} layers cannot fill {stages} pipeline stages",
    "heads_not_divisible": "{heads} heads are not divisible by {parts}",
    "kv_heads_not_divisible": "{kv_heads} KV heads neither divide by nor repeat over {parts} ranks",
    "no_experts": "expert parallelism needs a mixture of experts",
    "experts_not_divisible": "{experts} experts are not divisible by EP {parts}",
    "width_not_divisible": "MLP width {width} is not divisible by {parts}",
    "width_breaks_block": "MLP width {width} over {parts} ranks leaves {rest}, not a multiple of the {precision} block "
    "of {block}",
    "expert_width_not_divisible": "expert width {width} is not divisible by {parts}; EP leaves experts whole",
    "expert_width_breaks_block": "expert width {width} over {parts} ranks leaves {rest}, not a multiple of the "
    "{precision} block of {block}; EP leaves experts whole",
    "vocabulary_not_divisible": "a vocabulary of {vocabulary} is not divisible by {parts}, even padded to {padded}",
    "attention_dp_of_dense": "attention data parallelism is for MoE and MLA models; run replicas instead",
    "stage_spans_machines": "{layout} spans machines of {gpus} GPUs",
    # rules of a layout that trains
    "training_heads": "attention heads are not dealt out evenly over TP ranks",
    "training_batch": "the global batch is not dealt out in whole micro-batches",
    "training_chunks": "more pipeline chunks than layers",
    "training_interleave": "interleaving needs micro-batches in groups of as many as stages",
    "training_pipeline_sharding": "a pipeline keeps weights and gradients whole: no ZeRO-2, ZeRO-3 beside it",
    "training_sharding_alone": "no other rank to share with",
    "training_sequence": "the sequence is not cut evenly over CP ranks, 4,096 tokens each at least",
    "training_experts": "experts are not dealt out evenly over EP ranks",
    "training_quantised": "weights of 4 bits are not cut by tensor parallelism",
    "training_in_backward": "stepping in the backward pass takes one micro-batch a step (--batch)",
    "training_spot_gang": "more than 8 machines on spot at once are seldom had (--pricing spot asks for them)",
    "training_too_large": "does not fit in memory",
    "training_host_too_small": "does not fit in host memory",
    "training_device": "no training stack on this GPU, or none in {arithmetic} (--precision)",
    "training_counts": "{gpus} GPUs are no whole number of machines, or of too many small ones",
    "training_no_layout": "no layout deals out so many GPUs",
    "training_late": "not done by the deadline with the GPUs that were tried",
    "training_never_ends": "stopped so often that it might run for ten years",
    "training_binds_longer": "bought for a term and paid round the clock: not bought for one run",
    # what engines run
    "unsupported_architecture": "{engine} does not implement the architecture of {family} models",
    "architecture_of_newer_versions": "{engine} {version} does not know {family} models: {first} is the first to do so",
    "unsupported_device": "{engine} does not run on {device}",
    "unmaintained_device": "{engine} {until} and later {why}",
    "unsupported_weights": "{engine} does not run {weights} weights",
    "device_lacks_weights": "{device} does not run {weights} weights in this engine",
    "device_runs_wider": "{device} does not run {weights} weights in this engine, but {wide} of the same bytes "
    "(--precision {wide})",
    "device_refuses_weights": "{device} {why}",
    "weights_of_other_versions": "{engine} as asked runs no {weights} weights on {device}: versions {others} do",
    "kv_cache_of_other_versions": "{engine} as asked has no {kv} KV cache on {device}: versions {others} have one",
    "kv_cache_of_other_heads": "{engine} on {device} keeps {kv} for plain attention with heads of {heads} alone",
    "unsupported_kv_cache": "{engine} on {device} has no {kv} KV cache",
    "no_adapters": "{engine} as asked serves no adapters",
    "no_adapters_of_family": "{engine} serves no adapters of {family} models",
    "adapter_rank_too_large": "{engine} serves adapters up to rank {most}",
    "no_weights_in_host_memory": "{engine} as asked keeps no weights in host memory",
    "no_kv_in_host_memory": "{engine} as asked keeps no KV cache in host memory",
    "adapters_with_ep": "{engine} adapts no experts that lie whole on GPUs: {layout}",
    # what a search leaves out
    "drafts_with_stages": "{engine} drafts no tokens over pipeline stages",
    "drafts_with_groups": "{engine} drafts by {method} in no groups of attention-DP",
    "drafts_by_model": "this version of {engine} drafts with no other model",
    "link_unknown": "the link between the GPUs is not known",
    "no_curve": "no kernel curve for this format on this device",
    "too_large": "does not fit in memory",
    "short_of_memory": "short of memory",
    "longest_too_long": "no KV room for the longest request",
    "saturated": "saturated before any request is admitted",
    "no_room_for_burst": "KV room for fewer sequences than a burst needs",
    "over_limit": "{limit} above {limit_s} at any load",
    "no_price": "no price for the chosen clouds, regions and price kinds",
    "beyond_quota": "more machines than the quota, the reservation or your own rack allows",
    "over_budget": "over the budget of {budget_usd_per_hour} ({budget_usd_per_month})",
    "over_job_budget": "over the budget of {budget_usd}",
    "late": "late however many machines share it: a start and one request alone take longer",
    "late_on_spot": "late on spot: in drawn markets machines are refused or taken away too often",
    "late_with_cap": "not done by the deadline with the cap of {cap_machines}",
    "binds_longer": (
        "bought for a term and paid round the clock: not bought for a one-off job (use --every if it recurs)"
    ),
    # why a job runs now
    "schedule_at_once": "it may begin then",
    "schedule_after": "{job} is done then",
    "schedule_waits": "{jobs} ended",
    "schedule_maintenance": "maintenance of {pool} ends then",
    "schedule_no_gap": "no sooner gap on {pool} holds it",
    "schedule_cheaper_hour": "the hours are cheaper",
    "schedule_in_time_anyway": "sooner would gain nothing",
    # why a job runs there
    "schedule_only_way": "nowhere else",
    "schedule_no_budget": "the budget does not last for others",
    "schedule_others_late": "{hours_s} later on {gpus:g}x {pool}",
    "schedule_costs_less": "{usd} more on {gpus:g}x {pool}",
    "schedule_less_energy": "more energy on {gpus:g}x {pool}",
    "schedule_sooner": "done {hours_s} later on {gpus:g}x {pool}",
    "schedule_leaves_room": "{gpus:g}x {pool} is left to others",
    # why jobs cannot be scheduled, and what would change that
    "schedule_circle": "jobs wait for each other: {jobs}",
    "schedule_cut": "without 'after: {after}' of {job}",
    "schedule_gang": "{job} needs {gpus:g} GPUs at once and no pool has so many: {pool} has {has:g}",
    "schedule_more_gpus": "with {gpus:g} GPUs in {pool}",
    "schedule_power": "{job} draws {draws_watts} W and {pool} may draw {watts} W",
    "schedule_more_power": "with a power cap of {watts} W on {pool}",
    "schedule_not_on_spot": "{job} may only run on {pool}, which is spot, and is not preemptible",
    "schedule_preemptible": "with 'preemptible: yes' for {job}",
    "schedule_budget": "{jobs:g} jobs have to rent and the budget of {usd} does not last",
    "schedule_more_budget": "with a budget of {usd}",
    # how far it missed
    "short_by": "short by {missing_bytes} per GPU",
    "needs_host_memory": "needs {need_bytes} on a machine of {has_bytes}",
    "input_short_by": "short by {missing_bytes}",
    "needs_tokens": "{longest_tokens} tokens",
    "at_best": "{least_s} at best",
    "at_best_unpriced": "{least_s} at best, no price",
    "unpriced": "no price",
    "costs_per_hour": "{usd_per_hour}",
    "costs": "{usd}",
    "to_be_had": lambda f: f"{had(f['to_be_had'])} available",
    "to_be_had_at": lambda f: f"{had(f['to_be_had'])} available; {f['needed']:,} would cost {f['usd_per_hour']}",
    "soonest": lambda f: soonest(f),
}
TRANSFERRED = "transferred"
UNMEASURED_DRAFTS = "kernels were measured, on this GPU or its nearest relative; steps that verify drafts were not"
GRADES = {
    "measured": "kernels of this GPU were measured",
    "transferred": "kernels of the nearest relative of this GPU were measured",
    "roofline": "not all kernels of this GPU were measured, or no run of this engine; the rest are peaks and counts",
    "seed rule": "rules of thumb alone",
}


def sentence(reason: Reason) -> str:
    """A reason in words, without a full stop.

    >>> sentence(Reason.of("over_limit", limit="ttft.p95", limit_s=0.5))
    'ttft.p95 above 500 ms at any load'
    """
    template, figures = SENTENCES[reason.code], {name: written(name, value) for name, value in reason.figures}
    return template.format_map(figures) if isinstance(template, str) else template(figures)


def limit_words(binding: str) -> str:
    """What binds; an objective, an operator, load and KV room are called by their names.

    >>> limit_words("one_replica"), limit_words("tpot.p95")
    ('one replica is enough', 'tpot.p95')
    """
    return LIMITS.get(binding, binding)


def nearest_miss(rejection: Rejection) -> str:
    """What came nearest, and by how much it missed.

    >>> nearest_miss(Rejection(Reason("no_price"), "2x aws p5.48xlarge"))
    '2x aws p5.48xlarge'
    """
    return rejection.subject if rejection.miss is None else f"{rejection.subject}: {sentence(rejection.miss)}"


def had(number: Figure) -> str:
    """How many machines can be had."""
    return f"{number:,}" if number else "none"


def soonest(figures: Mapping[str, Any]) -> str:
    """When a job would be done at the soonest, with how many machines, and how many would do."""
    f = figures
    sure = f" or at {f['confidence']:.0%} confidence" if f["confidence"] > EXPECTED else ""
    is_short = f["enough_machines"] is not None
    of = f", {f['to_be_had']:,} available" if is_short and f["to_be_had"] is not None else ""
    enough = f"; {f['enough_machines']} would be enough" if is_short else ""
    return ("none available" if f["hours_s"] is None else f"{f['hours_s']} with the headroom{sure}{of}") + enough


def written(name: str, value: Figure) -> Figure:
    """One figure in the unit that its name ends with; a text and a bare number stay what they are."""
    write = next((write for suffix, write in WRITTEN.items() if name.endswith(suffix)), None)
    return value if write is None or not isinstance(value, float | int) else write(value)


def sized(size_bytes: float) -> str:
    """Bytes in GiB, or in MiB below a tenth of one."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB / 10 else f"{size_bytes / MIB:.0f} MiB"


def in_ms(seconds: float) -> str:
    """Milliseconds as an SLO can take them: whole ones from 10 ms on; seconds from 10 s on.

    >>> in_ms(0.5), in_ms(0.0005), in_ms(30.0)
    ('500 ms', '0.5 ms', '30 s')
    """
    if seconds >= IN_SECONDS_FROM_S:
        return f"{seconds:.10g} s"
    milliseconds = seconds / MILLISECOND
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.3g} ms"


def exact_time(seconds: float) -> str:
    """A limit with all of its digits, in milliseconds; in seconds from 10 s on.

    >>> exact_time(0.0392), exact_time(0.5), exact_time(12.4)
    ('39.2 ms', '500 ms', '12.4 s')
    """
    if seconds >= IN_SECONDS_FROM_S:
        return f"{seconds:.10g} s"
    return f"{seconds / MILLISECOND:.10g} ms"


def at_least_ms(seconds: float) -> str:
    """Milliseconds that a limit must allow: rounded up, whole ones from 10 ms on; tenths of a second from 10 s on.

    >>> at_least_ms(0.5001), at_least_ms(0.0023141), at_least_ms(12.001)
    ('501 ms', '2.32 ms', '12.1 s')
    """
    if seconds >= IN_SECONDS_FROM_S:
        return f"{math.ceil(seconds * 10 - ROUNDING) / 10:.10g} s"
    milliseconds = seconds / MILLISECOND
    scale = 1.0 if milliseconds >= 10 else 10.0 ** (2 - math.floor(math.log10(milliseconds)))
    return f"{math.ceil(milliseconds * scale - ROUNDING) / scale:.10g} ms"


def in_hours(seconds: float) -> str:
    """Hours from two on, minutes below.

    >>> in_hours(5400.0), in_hours(155_958.0)
    ('90.0 min', '43.3 h')
    """
    return f"{seconds / HOUR:,.1f} h" if seconds >= 2 * HOUR else f"{seconds / MINUTE:,.1f} min"


def machines(number: float) -> str:
    """A number of machines."""
    return f"{number:,} machine" if number == 1 else f"{number:,} machines"


WRITTEN: dict[str, Callable[[Any], str]] = {
    "least_s": at_least_ms,
    "hours_s": in_hours,
    "_s": in_ms,
    "_bytes": sized,
    "_tokens": "{:,.0f}".format,
    "watts": "{:,.0f}".format,
    "_machines": machines,
    "usd_per_hour": "${:,.2f}/h".format,
    "usd_per_month": "${:,.0f}/mo".format,
    "usd": "${:,.2f}".format,
}


REGION_REASONS = {
    "nothing_sold_runs_it": "nothing that is sold there, at a known price, runs it",
    "place_unknown": "where it stands is not known, so the network is not",
    "users_stay_elsewhere": "some users' requests must stay elsewhere",
    "too_far_for_some": "what is sold there is too slow, or too far, for some users",
    "too_far": "what is sold there is too slow, or too far, for all users",
    "no_type_serves_all": "no one machine type there serves all users",
    "quota": "too few machines can be had",
    "not_sold": "none of the plan's machines is sold there",
    "no_price": "machines of the plan are sold there at a price that is not known",
    "no_day": "prices of the plan's machines there have no date",
    "binds_longer": "prices of the plan's machines there bind for longer than the job",
    "job_stays_elsewhere": "the job has to stay elsewhere",
    "spot_gang": "only spot is sold there, where so many machines are seldom had at once",
    "grid": "its grid emits more than allowed, or is not known",
    "late": "what is sold there is done too late, or on spot too often so",
    "budget": "over the budget",
    "carbon": "emits more than allowed, or how much is not known",
}
"""Why a region does not serve all alone, or does not run a job, by its code."""


def grade_line(grade: str, drafts: str | None = None) -> str:
    """The grade and what it rests on; steps that verify `drafts` were not measured.

    >>> grade_line("measured")
    'Grade measured: kernels of this GPU were measured.'
    """
    return f"Grade {grade}: {UNMEASURED_DRAFTS if drafts and grade == TRANSFERRED else GRADES[grade]}."


def engine_words(engine: str, drafts: str | None) -> str:
    """An engine, and what it drafts with.

    >>> engine_words("vllm", "mtp:3"), engine_words("vllm", None)
    ('vllm drafting mtp:3', 'vllm')
    """
    return f"{engine} drafting {drafts}" if drafts else engine


def copies_words(d: Deployment) -> str:
    """How many copies, in which layout and format, and what they draft with."""
    drafts = f" {d.drafts}" if d.drafts else ""
    return f"{d.replicas}x {d.layout} {d.weight_format}{drafts}"


def memory_look(verdict: str) -> Literal["good", "tight"]:
    """The colour of something that fits, with room or without.

    >>> memory_look("fits"), memory_look("tight")
    ('good', 'tight')
    """
    return "good" if verdict == FITS else "tight"
