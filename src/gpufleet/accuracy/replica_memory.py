"""Memory of one replica in the layout, engine setting and batch that a row states: `fit` without its search."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.architecture.kv_cache import state_bytes_per_sequence
from gpufleet.catalog.engine_eras import engine_of_version
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16
from gpufleet.domain.precision_labels import kv_format, weight_format
from gpufleet.domain.reason import Reason
from gpufleet.layout.support import architecture_refusal, kv_refusal, weight_refusal
from gpufleet.memory.fit import Demand, MemoryBudget, cached_bytes_per_sequence, memory_budget
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.pages import paged_bytes_per_sequence, pages_of, shares_pages
from gpufleet.records import dataclass


@dataclass(frozen=True)
class MemoryQuestion:
    """One replica as it was started; None is the engine's or the checkpoint's own choice.

    `has_native_sampler`: PyTorch
    sampled, not FlashInfer.
    """

    model: Architecture
    gpu: str
    layout: Layout
    engine: str
    context_tokens: float
    precision: str | None = None
    kv_precision: str | None = None
    prompt_tokens: float | None = None
    batch: float | None = None
    start: EngineStart = EngineStart()
    engine_version: str | None = None
    has_native_sampler: bool = False


@dataclass(frozen=True)
class ReplicaMemory:
    """The budget of the fullest device, or why the engine does not run these formats there.

    `kv_bytes_per_block_token` is what a token takes of the pool as the engine counts when it logs its size.
    """

    budget: MemoryBudget
    context_tokens: float
    grade: str
    refusal: Reason | None
    kv_bytes_per_block_token: float

    @property
    def kv_bytes_per_token(self) -> float:
        """KV bytes of one token on one device, averaged over the context: windows make later tokens cheaper."""
        return float(self.budget.kv_bytes_per_sequence) / self.context_tokens


def replica_memory(question: MemoryQuestion) -> ReplicaMemory:
    """Weights, KV pool and total of a replica.

    >>> from gpufleet.catalog.models import shipped_architecture
    >>> llama = shipped_architecture("llama-3.1-8b")
    >>> found = replica_memory(MemoryQuestion(llama, "H100-SXM", Layout(), "vllm", 8192))
    >>> f"{found.budget.weights_bytes / 2**30:.1f} GiB"
    '15.0 GiB'
    """
    q = question
    accelerator = resolve_gpu(load_catalog(), q.gpu).accelerator
    engine = engine_of_version(q.engine, q.engine_version).started_with(q.start)
    engine = engine.with_native_sampler() if q.has_native_sampler else engine
    weights, kv = weight_format(q.model, q.precision), kv_format(q.kv_precision or BF16.name)
    rules = EngineMemory.of(engine, accelerator).at_its_default()
    demand = Demand(
        kv_bytes_per_element=kv.bytes_per_element,
        context_tokens=q.context_tokens,
        tp=q.layout.tp,
        pp=q.layout.pp,
        ep=q.layout.ep,
        attention_dp=q.layout.attention_dp,
        batch=q.batch,
        prompt_tokens=q.prompt_tokens,
    )
    refusal = (
        architecture_refusal(engine, q.model)
        or weight_refusal(engine, accelerator, weights)
        or kv_refusal(engine, accelerator, kv, q.model)
    )
    budget = memory_budget(q.model, weights, rules, demand)
    logged = logged_bytes_per_token(q.model, engine, rules, demand)
    return ReplicaMemory(budget, q.context_tokens, engine.grade, refusal, logged)


def logged_bytes_per_token(model: Architecture, engine: EngineProfile, rules: EngineMemory, demand: Demand) -> float:
    """Pool bytes of one token as an engine counts tokens when it logs the size of its pool.

    What a token of a fresh block takes in all layers, windows or not; whole sequences of the longest context where
    layers keep a state, or caches alone where states have a pool of their own. vLLM with pages for all kinds of
    layers: blocks dealt out to the groups, from 0.21 on whole sequences, which keep a prefill chunk beside a window.
    """
    d = demand
    if rules.shared_pages and shares_pages(model):
        pages = pages_of(model, d.kv_bytes_per_element, d.tp, d.pp, rules.kv_block_tokens)
        if "logs_whole_contexts" not in engine.constants or not engine.constant("logs_whole_contexts"):
            return float(pages.bytes_per_logged_token)
        chunk = min(float(rules.prefill_budget_tokens), float(d.context_tokens))
        whole = paged_bytes_per_sequence(pages, d.context_tokens, rules.states_per_sequence, chunk)
        return float(whole) / float(d.context_tokens)
    tokens = d.context_tokens if state_bytes_per_sequence(model) else rules.kv_block_tokens
    held = cached_bytes_per_sequence(model, rules, replace(d, context_tokens=tokens))
    return float(held) / float(tokens)
