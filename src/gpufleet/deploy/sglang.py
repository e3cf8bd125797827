"""The words of `python -m sglang.launch_server`."""

from __future__ import annotations

from gpufleet.deploy.replica import SIXTEEN_BITS, Replica

DOCUMENTED = "SGLang 0.5 (docs.sglang.io)"
CACHE_WORDS = {"fp8": "fp8_e4m3", "bf16": "bf16"}


def sglang_words(r: Replica) -> list[list[str]]:
    """The command in groups: a flag with its value.

    --tp counts the GPUs of a stage: with --enable-dp-attention, --dp groups share them. --max-running-requests is of
    all groups together.
    """
    start = ["python", "-m", "sglang.launch_server", "--model-path", r.loaded_from(quantises=True)]
    words = [start, ["--tp", str(r.layout.devices_per_stage)]]
    if r.layout.pp > 1:
        words.append(["--pp-size", str(r.layout.pp)])
    if r.layout.attention_dp > 1:
        words += [["--dp", str(r.layout.attention_dp)], ["--enable-dp-attention"]]
    if r.layout.ep > 1:
        words.append(["--ep-size", str(r.layout.ep)])
    words.append(["--context-length", str(r.longest_request_tokens)])
    if r.sequences is not None:
        words.append(["--max-running-requests", str(r.sequences)])
    words.append(["--chunked-prefill-size", str(r.step_tokens)])
    words += [["--enable-mixed-chunk"]] if r.engine.figure("mixes_prompts", 0.0) else []
    words.append(["--mem-fraction-static", f"{r.memory_fraction:g}"])
    return [*words, *_format_words(r)]


def _format_words(r: Replica) -> list[list[str]]:
    words = [["--kv-cache-dtype", CACHE_WORDS[r.kv.name]]] if r.names_cache_format and r.kv.name in CACHE_WORDS else []
    words += [["--quantization", "fp8"]] if r.is_quantised_by_loading else []
    return [*words, *([["--dtype", r.named_dtype]] if r.named_dtype else [])]


def sglang_notes(r: Replica) -> list[str]:
    """What the flags cannot say, or what must hold for them to work."""
    notes = []
    if r.is_quantised_by_loading:
        notes.append(
            "SGLang needs more memory while it makes fp8 of the stored weights: where that fails, serve a checkpoint "
            "that is stored in fp8, without --quantization"
        )
    if r.names_cache_format and r.kv.name not in (*CACHE_WORDS, *SIXTEEN_BITS):
        notes.append(f"No flag of SGLang asks for a KV cache in {r.kv.name}")
    return notes
