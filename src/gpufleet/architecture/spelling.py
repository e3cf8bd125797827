"""Keys of a config that are nearly those of its family, or say sizes that nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from gpufleet.architecture.read_config import ReadConfig

CLOSE_RATIO, MOST_NAMED = 0.85, 12
SIZE = re.compile(
    r"(^(num|n|d)_)|_(size|dim|dims|heads?|layers?|experts?|rank|width|interval|groups?|kernel|window|blocks?|topk?)$"
)
WITHOUT_EFFECT = frozenset(
    (
        *("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_transformer_layers", "num_mtp_modules"),
        *("n_group", "topk_group", "num_hash_layers", "attention_chunk_size", "sparse_local_block", "qk_head_dim"),
        *("rotary_dim", "rope_head_dim", "original_max_position_embeddings", "num_labels", "num_beams"),
        *("num_beam_groups", "num_return_sequences", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
        *("chunk_size_feed_forward", "ep_size", "moe_ep_size", "max_window_layers", "chunk_size", "mamba_chunk_size"),
        *("qk_rope_head_dim", "kda_layers", "intermediate_size_mlp", "sliding_window", "layer_types", "head_dim"),
        *("intermediate_size", "moe_intermediate_size", "num_key_value_heads", "num_kv_heads"),
        *("n_routed_experts", "n_shared_experts", "num_experts", "num_local_experts", "vocab_size", "n_ctx"),
        *("n_positions", "n_inner"),
    )
)  # sizes of parts that no figure here counts, and names that other families give what is read under another one
USUALLY_LEFT_OUT = frozenset(
    ("decoder_sparse_step", "max_position_embeddings", "moe_layer_freq", "num_hidden_layers", "num_ln_in_parallel_attn")
) | {"seq_length"}


def near_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that another was probably meant to be; None where none is near.

    >>> near_key("full_atention_interval", ["full_attention_interval", "head_dim"])
    'full_attention_interval'
    """
    by_folded = {_folded(k): k for k in sorted(known)}
    found = get_close_matches(_folded(key), by_folded, n=1, cutoff=CLOSE_RATIO)
    return by_folded[found[0]] if found else None


def _folded(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key[:200]).lower())


def doubts(read: ReadConfig) -> list[str]:
    """What is to be said of a config once it was read: keys that are misspelt or unknown, sizes that it left out."""
    said = [warning for part in _parts(read) for warning in _misspelt(part)]
    unknown = sorted({key for part in _parts(read) for key in _unknown_sizes(part)})
    if unknown:
        said.append(f"Warning: not read, though it may shape the model: {named(unknown)}")
    taken = {key: size for part in _parts(read) for key, size in part.defaults.items() if key not in USUALLY_LEFT_OUT}
    if taken:
        sizes = named([f"{key} {size:,}" for key, size in sorted(taken.items())])
        said.append(f"The config leaves out, and the family's default was taken: {sizes}")
    return said


def _parts(read: ReadConfig) -> Iterator[ReadConfig]:
    yield read
    for part in read.parts:
        yield from _parts(part)


def _misspelt(read: ReadConfig) -> Iterator[str]:
    missed = read.missed
    for key in sorted(read.unread):
        meant = near_key(key, missed)
        if meant is not None:
            taken = f"{meant} {read.defaults[meant]:,}" if meant in read.defaults else f"no {meant}"
            yield f"Warning: {key} is not a key of this family, and was not read: did you mean {meant}? Taken: {taken}"


def _unknown_sizes(read: ReadConfig) -> Iterator[str]:
    missed = read.missed
    for key, value in read.unread.items():
        is_size = isinstance(value, (int, list, dict)) and not isinstance(value, bool) and value not in (0, [], {})
        if is_size and key not in WITHOUT_EFFECT and SIZE.search(_folded(key)) and near_key(key, missed) is None:
            yield key


def named(names: list[str]) -> str:
    """Names with commas, the first of many."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
