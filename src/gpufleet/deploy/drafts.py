"""How engines are told to draft tokens, in the words of each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from gpufleet.domain.speculation import DRAFT_MODEL, EAGLE3, MTP, N_GRAM, Speculation

LONGEST_MATCH = 4
"""Tokens that a place of the text has to share with the end of it before n-gram drafts what follows there, at most."""
ALGORITHMS_OF_SGLANG = {EAGLE3: "EAGLE3", MTP: "EAGLE", N_GRAM: "NGRAM", DRAFT_MODEL: "STANDALONE"}
TYPES_OF_TENSORRT_LLM = {EAGLE3: "Eagle", MTP: "MTP", N_GRAM: "NGram", DRAFT_MODEL: "DraftTarget"}


def vllm_drafts(how: Speculation | None, checkpoint: str | None) -> Mapping[str, object]:
    """The one flag of `vllm serve` (docs.vllm.ai, features/spec_decode).

    >>> vllm_drafts(Speculation("mtp", 3, 4), None)
    {'--speculative-config': '{"method": "mtp", "num_speculative_tokens": 3}'}
    """
    if how is None:
        return {}
    said: dict[str, object] = {"method": {N_GRAM: "ngram", DRAFT_MODEL: "draft_model"}.get(how.method, how.method)}
    if checkpoint is not None:
        said["model"] = checkpoint
    said["num_speculative_tokens"] = how.num_tokens
    if how.method == N_GRAM:
        said["prompt_lookup_max"] = LONGEST_MATCH
    return {"--speculative-config": json.dumps(said)}


def sglang_drafts(how: Speculation | None, checkpoint: str | None) -> Mapping[str, object]:
    """Flags of SGLang's server (docs.sglang.io, advanced features, speculative decoding); a tree has several branches.

    >>> list(sglang_drafts(Speculation("eagle3", 5, 32), "head").values())
    ['EAGLE3', 'head', 5, 7, 32]
    """
    if how is None:
        return {}
    chain = how.method != N_GRAM
    return {
        "--speculative-algorithm": ALGORITHMS_OF_SGLANG[how.method],
        "--speculative-draft-model-path": checkpoint,
        "--speculative-num-steps": how.num_tokens if chain else None,
        "--speculative-eagle-topk": math.ceil((how.verified_tokens - 1) / how.num_tokens) if chain else None,
        "--speculative-num-draft-tokens": how.verified_tokens,
    }


def tensorrt_llm_drafts(how: Speculation | None, checkpoint: str | None) -> list[str]:
    """Lines of the options file of `trtllm-serve` (nvidia.github.io/TensorRT-LLM, features/speculative-decoding)."""
    if how is None:
        return []
    said: dict[str, object] = {"decoding_type": TYPES_OF_TENSORRT_LLM[how.method]}
    said["num_nextn_predict_layers" if how.method == MTP else "max_draft_len"] = how.num_tokens
    if checkpoint is not None:
        said["speculative_model_dir"] = checkpoint
    if how.method == N_GRAM:
        said["max_matching_ngram_size"] = LONGEST_MATCH
    return ["speculative_config:", *(f"  {name}: {value}" for name, value in said.items())]


def draft_notes(how: Speculation | None, engine: str, checkpoint: str | None) -> list[str]:
    """What must stand in the place of a head that nobody named, and trees that an engine does not verify."""
    if how is None:
        return []
    is_tree = how.verified_tokens > how.num_tokens + 1 and engine != "sglang"
    head = f"Put the hub id or folder of an EAGLE-3 head that was trained for this model in place of {checkpoint}"
    chain = f"The command drafts {how.num_tokens} tokens in a row: no flag of this engine asks for a tree"
    return [*([head] if how.method == EAGLE3 else []), *([chain] if is_tree else [])]
