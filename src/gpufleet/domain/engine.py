"""A serving engine as it behaves: which formats run where, what it keeps for itself, what its steps cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from gpufleet.domain.beside import NOTHING_BESIDE, AdapterRules, Beside, HostMemoryRules
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.own_stack import OwnStack
from gpufleet.domain.speculation import Speculation
from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

CHOSEN_BY_CARD = ("static_reserve_bytes", "static_bytes_per_device")
"""What an engine that is not told its share of memory leaves free by the card (SGLang)."""

NORM, ATTENTION, ACTIVATION = "norm", "attention", "activation"
"""What writes the input of a product."""

LOAD_SLOPE = "load_slope"
"""How many times e-fold more a step takes, as its user measured, for e times the sequences."""

OF_DRAFTS = ("verified_tokens", "draft_passes", "accepted_length")
"""Tokens of a sequence that a step works on where an engine drafts, passes of the draft, tokens that it yields."""

STEP_LIMITS = ("small_card_prefill_budget_tokens", "profiled_chunk_tokens")
"""Tokens of a step that an engine which is not told chooses by its card or its version."""

GRAPHS = (
    "graphed_context_tokens",
    "piece_graph_tokens",
    "decode_graph_tokens",
    "dp_graph_bytes",
    "wide_dp_graph_bytes",
)
"""For which steps an engine records CUDA graphs, and what these keep."""


PACES = (
    (
        "tpot",
        ("decode_scale_ratio", "step_overhead_s", "kernel_overhead_s", "reduction_overhead_s", "sequence_overhead_s",
         "eager_kernel_s", "eager_expert_s", "host_sequence_s", "prefill_mixing_ratio"),
        ("tpot_log_low", "tpot_log_high"),
    ),
    (
        "ttft",
        ("prefill_scale_ratio", "request_overhead_s", "token_overhead_s", "rank_overhead_s"),
        ("ttft_log_low", "ttft_log_high"),
    ),
)  # fmt: skip
"""A time, the constants that it is made of and no other time, and the ends of its range."""


@dataclass(frozen=True)
class FormatSupport:
    """One number format on the accelerator generations where an engine runs it, and the arithmetic it then uses.

    Versions from `since` on and before `until` do; a KV cache of attention with heads of `head_dims` alone (empty: of
    any, latent ones too), and not of families in `lacks`.
    """

    name: str
    generations: tuple[str, ...]
    arithmetic: str
    since: str | None = None
    until: str | None = None
    head_dims: tuple[int, ...] = ()
    lacks: tuple[str, ...] = ()
    source: str = ""

    @property
    def versions(self) -> str:
        """The versions in words."""
        bounds = {"from": self.since, "before": self.until}
        return " and ".join(f"{word} {version}" for word, version in bounds.items() if version)


@dataclass(frozen=True)
class CardLimits:
    """What an engine chooses for cards with less memory than `below_bytes`: its chunk and its largest graph."""

    below_bytes: float
    prefill_budget_tokens: int
    graph_batch: int


@dataclass(frozen=True)
class MemoryEra:
    """Versions up to `newest`, before `until` (released `until_date`), whose memory rules differ.

    `figures` replace those of the newest versions.
    `until_issue`: the first issue or pull request of the engine's repository that was opened after that release.
    """

    name: str
    newest: str
    until: str
    until_date: str
    until_issue: int
    figures: dict[str, Sourced]
    max_batch: int | None = None


@dataclass(frozen=True)
class EarlierFigure:
    """A figure of versions before `until` where `value` is not that of the newest."""

    name: str
    until: str
    value: Sourced


@dataclass(frozen=True)
class EarlierFusion:
    """What wrote a format for the next product in versions before `until` where the newest have more or less of it."""

    format: str
    until: str
    written_by: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class DroppedGeneration:
    """A GPU generation that an engine ran on in versions before `until`; `why` goes on from "vLLM 0.20 and later"."""

    generation: str
    until: str
    why: str
    source: str


@dataclass(frozen=True)
class Implemented:
    """Families of decoders (`Architecture.family`) that an engine implements: `has` alone, or all but `lacks`.

    `later`: those that its version surely lacks, with the first version that has them; where it `falls_back`, it may
    run models of the usual shape without code of its own.
    """

    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    source: str = ""
    later: Mapping[str, str] = field(default_factory=dict)
    falls_back: bool = False

    def __post_init__(self) -> None:
        if self.has and self.lacks:
            raise ValueError("architectures: state what an engine has or what it lacks, not both")

    def includes(self, family: str) -> bool:
        """Whether a family is among them."""
        return family in self.has if self.has else family not in self.lacks


@dataclass(frozen=True)
class EngineGeneration:
    """One of several engines in releases of one program, of which a build may be asked for another than its own.

    `oldest` and `newest` are the releases that have it by default, `first` and `last` those that have it at all; None:
    no end. `asked_by` is what asks a release for it whose default it is not.
    """

    name: str
    oldest: str | None
    newest: str | None
    source: str
    first: str | None = None
    last: str | None = None
    asked_by: str = ""


@dataclass(frozen=True)
class ServedAs:
    """What an engine is told beside its limits: it changes no figure but which 16 bits are computed in.

    `dtype` is 'bfloat16', 'float16' or 'auto', `chat_template` a file that the server reads.
    """

    dtype: str | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: str | None = None


@dataclass(frozen=True, eq=False)
class EngineProfile:
    """Judgements about one engine era; every constant comes from `data/engines/<name>.toml` with its source.

    `dropped` are GPU generations that this version no longer runs on, taken out of `formats`; `of_other_versions` and
    `kv_of_other_versions` are formats that it does not run yet, or no longer; `earlier` are figures
    that older versions had otherwise, `earlier_fusions` what they fused; `releases` are its versions in order, by which
    those between two that were measured are placed. `kv_of_weights` names the KV format that the engine takes from
    checkpoints of a weight format, `fused_quantisation` what writes its result in the format that the next product
    takes (else a kernel of its own quantises it), `generations` the engines of which a build may be asked for another
    than its own, `newest_version` the newest that anything was measured of; None where
    engines are known by year; `version` is the one that was asked for, `own` what its user measured of it on a GPU,
    `start` how it is started, `told` what it serves in and with; `drafts` how it drafts tokens, where it does.
    `splits_by_layer`: over several GPUs it gives each a run of layers, unless told otherwise, which work one after the
    other. `beside` is what it was told to keep beside a model, by the rules of `adapters` and `host_memory`; None: it
    serves no adapters, or keeps nothing there.
    """

    name: str
    title: str
    version_era: str
    memory_fraction: Sourced
    reserve_bytes: Sourced
    graph_bytes: Sourced
    kv_block_tokens: int
    max_batch: int
    prefill_budget_tokens: int
    constants: dict[str, Sourced] = field(default_factory=dict)
    weight_formats: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ("nvidia",)
    grade: str = "measured"
    aliases: tuple[str, ...] = ()
    formats: tuple[FormatSupport, ...] = ()
    kv_formats: tuple[FormatSupport, ...] = ()
    of_other_versions: tuple[FormatSupport, ...] = ()
    kv_of_other_versions: tuple[FormatSupport, ...] = ()
    refusals: dict[str, str] = field(default_factory=dict)
    kv_of_weights: dict[str, str] = field(default_factory=dict)
    fused_quantisation: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cards: tuple[CardLimits, ...] = ()
    memory_eras: tuple[MemoryEra, ...] = ()
    earlier: tuple[EarlierFigure, ...] = ()
    earlier_fusions: tuple[EarlierFusion, ...] = ()
    releases: tuple[str, ...] = ()
    repository: str | None = None
    newest_version: str | None = None
    dropped: tuple[DroppedGeneration, ...] = ()
    splits_by_layer: bool = False
    architectures: Implemented = Implemented()
    generations: tuple[EngineGeneration, ...] = ()
    version: str | None = None
    own: OwnStack | None = None
    start: EngineStart = EngineStart()
    told: ServedAs = ServedAs()
    adapters: AdapterRules | None = None
    host_memory: HostMemoryRules | None = None
    beside: Beside = NOTHING_BESIDE
    drafts: Speculation | None = None

    def with_native_sampler(self) -> EngineProfile:
        """The engine without FlashInfer, where PyTorch sorts the logits in more memory; itself where it always does."""
        native = self.constants.get("native_logit_bytes")
        return self if native is None else replace(self, constants={**self.constants, "logit_bytes": native})

    def constant(self, name: str) -> float:
        """A fitted constant by name; KeyError is our bug, not the user's."""
        return self.constants[name].value

    def started_with(self, start: EngineStart) -> EngineProfile:
        """The engine started or built as stated, whatever the card; what is not stated is its default.

        It sets memory aside for sequences and tokens of a step: activations, logits and sampling of every sequence.
        """
        tokens = start.max_step_tokens
        stated = {"small_card_max_batch": start.max_batch, **dict.fromkeys(STEP_LIMITS, tokens)}
        own = {n: replace(self.constants[n], value=float(v)) for n, v in stated.items() if v and n in self.constants}
        limited = replace(
            self,
            start=start,
            max_batch=start.max_batch or self.max_batch,
            prefill_budget_tokens=tokens or self.prefill_budget_tokens,
            kv_block_tokens=start.block_tokens or self.kv_block_tokens,
            constants={**self.constants, **own},
        )
        limited = limited if start.chunks_prompts is None else limited.chunking(start.chunks_prompts)
        limited = limited.without_graphs() if start.enforce_eager else limited
        limited = limited.mixing_prompts() if start.mixes_prompts else limited
        return limited if start.memory_fraction is None else limited.keeping_to(start.memory_fraction)

    def chunking(self, chunks_prompts: bool) -> EngineProfile:
        """The engine with prompts cut over several steps, beside decoding, or with each whole in one step.

        An engine that cuts none takes any one context that is longer than its budget. Engines that cut by default, as
        vLLM's V1 does, let a prompt wait until a step has room for all of it (v1/core/sched/scheduler.py), others need
        no rule for that. SGLang has another budget then (--max-prefill-tokens).
        """
        cuts = self.figure("whole_context", 0.0) <= 0
        if chunks_prompts:
            return self if cuts else self.with_figures(whole_context=0.0).mixing_prompts()
        budget = int(self.figure("unchunked_step_tokens", self.prefill_budget_tokens))
        waits = {"awaits_whole_room": 1.0} if cuts else {}
        whole = self.with_figures(whole_context=1.0, chunk_above_tokens=math.inf, **waits)
        return whole if self.start.max_step_tokens else replace(whole, prefill_budget_tokens=budget)

    def without_graphs(self) -> EngineProfile:
        """The engine that records no CUDA graphs: the host launches every kernel of every step."""
        none = exactly(self.graph_bytes, 0.0)
        return replace(self.with_figures(**dict.fromkeys(GRAPHS, 0.0)), graph_bytes=none)

    def with_figures(self, **figures: float) -> EngineProfile:
        """The engine with figures that its start decides."""
        unknown = Sourced(0.0, "", "how the engine is started")
        own = {name: exactly(self.constants.get(name, unknown), value) for name, value in figures.items()}
        return replace(self, constants={**self.constants, **own})

    def drafting(self, how: Speculation, accepted: Sourced) -> EngineProfile:
        """The engine with tokens drafted in each step, which then yields `accepted`, its own included."""
        if not how.num_tokens:
            return self
        counts = {"verified_tokens": how.verified_tokens, "draft_passes": how.num_tokens}
        said = {name: Sourced(float(count), "1", "what was asked for") for name, count in counts.items()}
        return replace(self, constants={**self.constants, **said, "accepted_length": accepted}, drafts=how)

    def without_drafts(self) -> EngineProfile:
        """The engine that drafts nothing."""
        left = {name: figure for name, figure in self.constants.items() if name not in OF_DRAFTS}
        return replace(self, constants=left, drafts=None) if self.drafts else self

    def mixing_prompts(self) -> EngineProfile:
        """The engine with prompts and decoding in the same steps, in which clients fall out of step."""
        return self.with_figures(mixes_prompts=1.0, synchrony_ratio=0.0)

    def keeping_beside(self, beside: Beside) -> EngineProfile:
        """The engine with adapters, or weights or KV cache in host memory; with adapters steps are as slow as stated.

        Adapters that nobody timed make no step faster, and may slow it as far as published runs were slowed.
        """
        parts = ["prefill_mixing_ratio", *(part for _, of_time, _ in PACES for part in of_time)]
        slower = scaled(self.constants, parts, 1 + beside.lora_slowdown) if beside.lora_slowdown else {}
        return replace(self, beside=beside, constants={**self.constants, **slower})

    def paced(self, model: str, layout: str) -> EngineProfile:
        """The engine as its user measured it with this model in this layout, on the GPU where he did.

        Every part of a step takes so many times as long, as do the further parts of a first token; ranges shrink to
        what is still unknown.
        """
        own = self.constants
        for time, parts, ends in PACES:
            fitted = self.own.times.get(time) if self.own else None
            if fitted is not None:
                factor, narrower = fitted.factor_of(model, layout), fitted.range_ratio(model, layout)
                own = {**own, **scaled(own, parts, factor.ratio), **scaled(own, ends, narrower)}
                if time == "tpot" and factor.slope:
                    own[LOAD_SLOPE] = exactly(own["decode_scale_ratio"], factor.slope)
        return replace(self, constants=own)

    def keeping_to(self, memory_fraction: float) -> EngineProfile:
        """The engine started with a stated share of memory, which nothing raises, whatever the card.

        TensorRT-LLM states the share of what is free once weights and activations are taken.
        """
        if self.figure("states_free_fraction", 0.0):
            free = exactly(self.constants["free_fraction"], memory_fraction)
            return replace(self, constants={**self.constants, "free_fraction": free})
        left = {name: figure for name, figure in self.constants.items() if name not in CHOSEN_BY_CARD}
        return replace(self, memory_fraction=exactly(self.memory_fraction, memory_fraction), constants=left)

    def figure(self, name: str, otherwise: float) -> float:
        """A figure that only some engines or versions have."""
        return self.constants[name].value if name in self.constants else otherwise


def scaled(figures: Mapping[str, Sourced], names: Iterable[str], ratio: float) -> dict[str, Sourced]:
    """Those of these figures that there are, so many times."""
    return {name: replace(figures[name], value=figures[name].value * ratio) for name in names if name in figures}


def exactly(judged: Sourced, value: float) -> Sourced:
    """A figure that is set and no longer judged: no other value is likely."""
    return replace(judged, value=value, low=value, high=value)
