"""The seeds' table of the smallest GPU for a model."""

from __future__ import annotations

from typing import NamedTuple

from gpufleet.errors import UnknownName


class RightSize(NamedTuple):
    """A row of "Right-Size Your GPU"; `overkill` is empty where the seed crosses it out."""

    model: str
    least_vram_gb: float
    optimal_gpu: str
    overkill: tuple[str, ...]


RIGHT_SIZES = (
    RightSize("Whisper Tiny", 1, "T4 (16GB)", ()),
    RightSize("Whisper Base", 1, "T4 (16GB)", ()),
    RightSize("Whisper Small", 2, "T4 (16GB)", ()),
    RightSize("Whisper Medium", 5, "T4 (16GB)", ("A10G",)),
    RightSize("Whisper Large-v2", 10, "T4 (16GB)", ("A10G",)),
    RightSize("Whisper Large-v3", 10, "A10G (24GB)", ("V100", "A100")),
    RightSize("Llama 7B (FP16)", 14, "T4 / A10G", ("V100",)),
    RightSize("Llama 13B (FP16)", 26, "A10G (need 2x)", ("V100",)),
)


def right_size(model: str) -> RightSize:
    """The seeds' row for a model, by its name in the table; case, spaces and '(FP16)' do not matter.

    Source: GPU Selection Guide for RemoteMedia on AWS, "Right-Size Your GPU".

    >>> right_size("llama-13b").least_vram_gb, right_size("whisper large-v3").optimal_gpu
    (26, 'A10G (24GB)')
    """
    by_name = {folded(row.model): row for row in RIGHT_SIZES}
    if folded(model) not in by_name:
        raise UnknownName("model of the seeds' right-size table", model, [row.model for row in RIGHT_SIZES])
    return by_name[folded(model)]


def folded(name: str) -> str:
    """A name without case, precision and separators.

    >>> folded("Llama 7B (FP16)")
    'llama7b'
    """
    bare = name.casefold().replace("(fp16)", "")
    return "".join(letter for letter in bare if letter.isalnum())
