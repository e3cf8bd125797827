"""The words of `trtllm-serve`, and the options that only its file takes."""

from __future__ import annotations

from gpufleet.deploy.replica import Replica

DOCUMENTED = "TensorRT-LLM 1.0 and later (nvidia.github.io/TensorRT-LLM)"
OPTIONS_FILE = "extra-llm-api-options.yaml"
CACHE_WORDS = ("fp8", "int8")


def tensorrt_llm_words(r: Replica) -> list[list[str]]:
    """The command in groups: a flag with its value.

    --tp_size counts the GPUs of a stage; --max_batch_size and --max_num_tokens are of one attention-DP rank.
    """
    start = ["trtllm-serve", r.loaded_from(quantises=False)]
    words = [start, ["--tp_size", str(r.layout.devices_per_stage)]]
    if r.layout.pp > 1:
        words.append(["--pp_size", str(r.layout.pp)])
    if r.layout.ep > 1:
        words.append(["--ep_size", str(r.layout.ep)])
    if r.sequences_per_group is not None:
        words.append(["--max_batch_size", str(r.sequences_per_group)])
    words += [["--max_num_tokens", str(r.step_tokens)], ["--max_seq_len", str(r.longest_request_tokens)]]
    words.append(["--kv_cache_free_gpu_memory_fraction", f"{r.memory_fraction:g}"])
    return [*words, *([["--extra_llm_api_options", OPTIONS_FILE]] if tensorrt_llm_options(r) else [])]


def tensorrt_llm_options(r: Replica) -> str:
    """The options file; empty where nothing is said there. A KV section of its own repeats the fraction."""
    lines = ["enable_attention_dp: true"] if r.layout.attention_dp > 1 else []
    lines += ["enable_chunked_prefill: true"] if r.longest_request_tokens > r.step_tokens else []
    lines += [f"dtype: {r.named_dtype}"] if r.named_dtype else []
    if r.names_cache_format and r.kv.name in CACHE_WORDS:
        lines += ["kv_cache_config:", f"  dtype: {r.kv.name}", f"  free_gpu_memory_fraction: {r.memory_fraction:g}"]
    return "".join(f"{line}\n" for line in lines)


def tensorrt_llm_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    notes = []
    if r.layout.attention_dp > 1 and r.layout.tp > 1:
        notes.append(f"With attention-DP TensorRT-LLM gives every GPU requests of its own: it has no {r.layout.label}")
    return notes
