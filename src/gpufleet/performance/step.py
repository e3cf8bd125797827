"""Seconds of one engine step: every operator of every layer, on one GPU of a replica.

A step processes the tokens of `decoding` sequences (one each) and of `prefilling` prompts. Matrix products see all of
these tokens together, attention sees each kind on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpufleet.domain.architecture import Architecture, Attention, Block, DenseMlp, LatentAttention, MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.performance.attention import attention_decode_s, attention_prefill_s
from gpufleet.performance.collectives import all_gather_s, all_reduce_s, reduce_scatter_s
from gpufleet.performance.elementwise import elementwise_s
from gpufleet.performance.gemm import gemm_s
from gpufleet.performance.hardware import Hardware, gather_hardware
from gpufleet.performance.latent_attention import latent_decode_s, latent_prefill_s
from gpufleet.performance.moe import experts_s

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class StepLoad:
    """What one step of a replica processes; counts are of the whole replica.

    decoding sequences at `decode_context_tokens`, and `prefilling` prompts of `prompt_tokens`.
    """

    decoding: FloatArray
    decode_context_tokens: Floats
    prefilling: Floats = 0.0
    prompt_tokens: Floats = 0.0

    @property
    def has_prefill(self) -> bool:
        """Whether any candidate prefills in this step."""
        return bool(np.any(np.asarray(self.prefilling) * np.asarray(self.prompt_tokens) > 0))


@dataclass(frozen=True)
class StepModel:
    """One architecture on many candidates, with the hardware figures of each candidate gathered once."""

    arch: Architecture
    candidates: Candidates
    hardware: Hardware

    @classmethod
    def build(cls, arch: Architecture, candidates: Candidates, calibration: Calibration) -> StepModel:
        """Gather the curves of each candidate's accelerator, formats and link."""
        return cls(arch, candidates, gather_hardware(calibration, candidates))

    def terms(self, load: StepLoad) -> dict[str, FloatArray]:
        """Seconds by operator, summed over layers; the step is their sum.

        Pipeline stages work on `pp` micro-batches at once: a token passes all layers at batch / pp.
        """
        ledger = _Ledger(self, load)
        for block in self.arch.blocks:
            ledger.add_block(block)
        ledger.add_head()
        return ledger.seconds

    @property
    def is_supported(self) -> BoolArray:
        """Candidates whose device has a kernel curve for every operator in its precision."""
        one = np.ones(len(self.candidates))
        return np.asarray(np.isfinite(self.seconds(StepLoad(one, 1.0, 1.0, 1.0))))

    def seconds(self, load: StepLoad) -> FloatArray:
        """Seconds of the whole step."""
        return np.asarray(sum(self.terms(load).values()), dtype=np.float64)


@dataclass
class _Ledger:
    """Adds up the operators of one step."""

    model: StepModel
    load: StepLoad
    seconds: dict[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        c = self.model.candidates
        groups = np.asarray(c.attention_dp * c.pp, dtype=np.float64)
        self.decoding = _per_group(self.load.decoding, groups)
        self.prefilling = _per_group(self.load.prefilling, groups)
        self.tokens = np.maximum(self.decoding + self.prefilling * self.load.prompt_tokens, 1.0)
        self.stage_tokens = np.maximum(
            (self.load.decoding + np.asarray(self.load.prefilling) * self.load.prompt_tokens) / c.pp, 1.0
        )
        self.tp = np.asarray(c.tp, dtype=np.float64)
        self.ranks = np.asarray(c.tp * c.attention_dp, dtype=np.float64)

    def add(self, name: str, seconds: FloatArray, count: int) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + count * seconds

    def add_block(self, block: Block) -> None:
        hidden, hw = self.model.arch.hidden_size, self.model.hardware
        if isinstance(block.mixer, Attention):
            self._attention(block.mixer, block.count)
        else:
            self._latent_attention(block.mixer, block.count)
        if isinstance(block.feed_forward, DenseMlp):
            self._mlp(block.feed_forward, block.count)
        else:
            self._experts(block.feed_forward, block.count)
        stream_bytes = 8 * self.tokens * hidden * ACTIVATION_BYTES  # two norms with residual: 4 passes each
        self.add("norms and residuals", elementwise_s(hw.bandwidth_bytes_per_s, stream_bytes), block.count)

    def _attention(self, mixer: Attention, count: int) -> None:
        hidden, hw, tp = self.model.arch.hidden_size, self.model.hardware, self.tp
        heads = mixer.num_heads / tp
        kv_heads = np.maximum(mixer.num_kv_heads / tp, 1.0)
        width = (heads + 2 * kv_heads) * mixer.head_dim
        self.add("attention projections", gemm_s(hw.attention_gemm, self.tokens, width, hidden), count)
        self.add("attention projections", gemm_s(hw.attention_gemm, self.tokens, hidden, heads * mixer.head_dim), count)
        context = np.minimum(self.load.decode_context_tokens, mixer.window_tokens)
        decode = attention_decode_s(hw.attention, self.decoding, heads, kv_heads, mixer.head_dim, context)
        self.add("attention over the KV cache", np.where(self.decoding > 0, decode, 0.0), count)
        if self.load.has_prefill:
            prompt = np.asarray(self.load.prompt_tokens, dtype=np.float64)
            prefill = attention_prefill_s(
                hw.attention, self.prefilling, prompt, prompt, heads, kv_heads, mixer.head_dim, mixer.window_tokens
            )
            self.add("attention over prompts", np.where(self.prefilling > 0, prefill, 0.0), count)
        self._all_reduce("all-reduce after attention", count)

    def _latent_attention(self, mixer: LatentAttention, count: int) -> None:
        hidden, hw, tp = self.model.arch.hidden_size, self.model.hardware, self.tp
        heads = mixer.num_heads / tp
        query = heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        products: list[tuple[Floats, Floats]]
        if mixer.q_lora_rank is None:
            products = [(query + latent, hidden)]
        else:
            products = [(mixer.q_lora_rank + latent, hidden), (query, mixer.q_lora_rank)]
        products.append((hidden, heads * mixer.v_head_dim))
        for width, depth in products:
            self.add("attention projections", gemm_s(hw.attention_gemm, self.tokens, width, depth), count)
        decode = latent_decode_s(hw.latent_attention, self.decoding, heads, self.load.decode_context_tokens)
        self.add("attention over the KV cache", np.where(self.decoding > 0, decode, 0.0), count)
        if self.load.has_prefill:
            prompt = np.asarray(self.load.prompt_tokens, dtype=np.float64)
            expand = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
            prompt_tokens = np.maximum(self.prefilling * prompt, 1.0)
            prefill = latent_prefill_s(hw.latent_attention, self.prefilling, prompt, heads)
            prefill = prefill + gemm_s(hw.attention_gemm, prompt_tokens, expand, mixer.kv_lora_rank)
            self.add("attention over prompts", np.where(self.prefilling > 0, prefill, 0.0), count)
        self._all_reduce("all-reduce after attention", count)

    def _mlp(self, mlp: DenseMlp, count: int) -> None:
        self._gated_mlp("mlp", mlp.width / self.tp, mlp.gated, count)
        self._all_reduce("all-reduce after mlp", count)

    def _gated_mlp(self, name: str, width: Floats, gated: bool, count: int) -> None:
        hidden, hw = self.model.arch.hidden_size, self.model.hardware
        up_width = (2 if gated else 1) * width
        self.add(name, gemm_s(hw.mlp_gemm, self.tokens, up_width, hidden), count)
        self.add(name, gemm_s(hw.mlp_gemm, self.tokens, hidden, width), count)
        activation_bytes = self.tokens * (up_width + width) * ACTIVATION_BYTES
        self.add(name, elementwise_s(hw.bandwidth_bytes_per_s, activation_bytes), count)

    def _experts(self, moe: MixtureOfExperts, count: int) -> None:
        hidden, hw, c = self.model.arch.hidden_size, self.model.hardware, self.model.candidates
        self.add("router", gemm_s(hw.router_gemm, self.tokens, float(moe.num_experts), hidden), count)
        routed = experts_s(
            hw.experts, self.stage_tokens, moe.num_experts, moe.top_k, hidden, moe.expert_width,
            np.asarray(c.ep, dtype=np.float64), np.asarray(c.moe_tp, dtype=np.float64), moe.gated,
        )  # fmt: skip
        self.add("experts", routed, count)
        if moe.shared_width:
            self._gated_mlp("shared experts", moe.shared_width / self.tp, moe.gated, count)
        self._exchange_with_experts(count)

    def _exchange_with_experts(self, count: int) -> None:
        """TP ranks share tokens and only reduce; attention-DP groups gather all tokens first and scatter results."""
        hw, c = self.model.hardware, self.model.candidates
        size_bytes = self.stage_tokens * self.model.arch.hidden_size * ACTIVATION_BYTES
        gather = all_gather_s(hw.collectives, size_bytes, self.ranks)
        scatter = reduce_scatter_s(hw.collectives, size_bytes, self.ranks)
        reduce = all_reduce_s(hw.collectives, size_bytes, self.tp)
        self.add("expert exchange", np.where(c.attention_dp > 1, gather + scatter, reduce), count)

    def _all_reduce(self, name: str, count: int) -> None:
        size_bytes = self.tokens * self.model.arch.hidden_size * ACTIVATION_BYTES
        self.add(name, all_reduce_s(self.model.hardware.collectives, size_bytes, self.tp), count)

    def add_head(self) -> None:
        arch, hw = self.model.arch, self.model.hardware
        rows = np.maximum(self.decoding + self.prefilling, 1.0)
        self.add("output head", gemm_s(hw.head_gemm, rows, arch.vocab_size / self.tp, arch.hidden_size), 1)
        logits_bytes = rows * arch.vocab_size * ACTIVATION_BYTES
        self.add("output head", all_gather_s(hw.collectives, logits_bytes, self.tp), 1)


def _per_group(count: Floats, groups: FloatArray) -> FloatArray:
    """Sequences of the busiest group: at least one while there are any."""
    count = np.asarray(count, dtype=np.float64)
    return np.where(count > 0, np.maximum(count / groups, 1.0), 0.0)
