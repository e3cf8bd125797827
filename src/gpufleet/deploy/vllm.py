"""The words of `vllm serve`."""

from __future__ import annotations

from gpufleet.deploy.replica import SIXTEEN_BITS, Replica

DOCUMENTED = "vLLM 0.10 and later (docs.vllm.ai)"
CACHE_WORDS = {"fp8": "fp8", "bf16": "bfloat16", "fp16": "float16"}


def vllm_words(r: Replica) -> list[list[str]]:
    """The command in groups: a flag with its value.

    --gpu-memory-utilization is said though 0.9 was the default for long: releases of 2026 take 0.92. --max-num-seqs is
    of one data-parallel rank. Experts are spread over all ranks of TP x DP (--enable-expert-parallel), or cut.
    """
    words = [["vllm", "serve", r.loaded_from(quantises=True)], ["--tensor-parallel-size", str(r.layout.tp)]]
    if r.layout.pp > 1:
        words.append(["--pipeline-parallel-size", str(r.layout.pp)])
    if r.layout.attention_dp > 1:
        words.append(["--data-parallel-size", str(r.layout.attention_dp)])
    if r.layout.ep > 1:
        words.append(["--enable-expert-parallel"])
    words.append(["--max-model-len", str(r.longest_request_tokens)])
    if r.sequences_per_group is not None:
        words.append(["--max-num-seqs", str(r.sequences_per_group)])
    words.append(["--max-num-batched-tokens", str(r.step_tokens)])
    words.append(["--gpu-memory-utilization", f"{r.memory_fraction:g}"])
    return [*words, *_format_words(r)]


def _format_words(r: Replica) -> list[list[str]]:
    words = [["--kv-cache-dtype", CACHE_WORDS[r.kv.name]]] if r.names_cache_format and r.kv.name in CACHE_WORDS else []
    words += [["--quantization", "fp8"]] if r.is_quantised_by_loading else []
    return [*words, *([["--dtype", r.named_dtype]] if r.named_dtype else [])]


def vllm_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    notes = []
    if r.is_quantised_by_loading:
        notes.append(
            "vLLM may load the stored weights before it makes fp8 of them: where those do not fit, serve a checkpoint "
            "that is stored in fp8, without --quantization"
        )
    if r.layout.ep not in (1, r.layout.devices_per_stage):
        gpus = r.layout.devices_per_stage
        notes.append(f"vLLM spreads experts over all {gpus} GPUs of a stage, not over EP {r.layout.ep}")
    if r.names_cache_format and r.kv.name not in (*CACHE_WORDS, *SIXTEEN_BITS):
        notes.append(f"No flag of vLLM asks for a KV cache in {r.kv.name}")
    return notes
