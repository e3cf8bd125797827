"""What an engine is told to keep beside a model: adapters on its GPUs, weights and KV cache in the host's memory."""

from __future__ import annotations

import re

from gpufleet.errors import UsageError
from gpufleet.records import dataclass

ATTENTION, MLP = "attention", "mlp"
ALL_PARTS = (ATTENTION, MLP)
ADAPTER_ELEMENT_BYTES = 2.0
"""Adapters are kept in the 16 bits that the model computes in, however its own weights are stored."""
MOST_RANK = 8192
ADAPTERS_EXPECTED = "such as 20xr16, 20xr16/4 (four on the GPUs at once), r16, 20xr16@attention (or @mlp)"


@dataclass(frozen=True)
class ServedAdapters:
    """`number` LoRA adapters of `rank`, `slots` of which lie on each GPU at once; the others wait in host memory.

    They sit on the linear layers of `parts`: those of a shared expert and of routed ones belong to the MLP.
    """

    number: int
    rank: int
    slots: int
    parts: tuple[str, ...] = ALL_PARTS

    def __str__(self) -> str:
        slots = "" if self.slots == self.number else f"/{self.slots}"
        return f"{self.number}xr{self.rank}{slots}{'' if self.parts == ALL_PARTS else f'@{self.parts[0]}'}"


def parse_adapters(text: str) -> ServedAdapters:
    """LoRA adapters: how many of which rank, how many of them lie on each GPU at once, and the layers that they adapt.

    >>> parse_adapters("20xr16"), str(parse_adapters("r16")), str(parse_adapters("8 x r64 / 4 @ attention"))
    (ServedAdapters(number=20, rank=16, slots=20, parts=('attention', 'mlp')), '1xr16', '8xr64/4@attention')
    """
    said = re.fullmatch(
        r"\s*(?:(\d{1,6})\s*[x×]\s*)?r\s*(\d{1,5})\s*(?:/\s*(\d{1,6})\s*)?(?:@\s*(attention|mlp|all)\s*)?",
        str(text), re.IGNORECASE | re.ASCII,
    )  # fmt: skip
    numbers = [int(each) if each else 0 for each in said.groups("")[:3]] if said else [0, 0, 0]
    if said is None or (said[1] and not numbers[0]) or not 1 <= numbers[1] <= MOST_RANK or (said[3] and not numbers[2]):
        raise UsageError("cannot read adapters", found=text, expected=ADAPTERS_EXPECTED)
    number, rank, slots = numbers[0] or 1, numbers[1], numbers[2]
    parts = ALL_PARTS if said[4] is None or said[4].lower() == "all" else (said[4].lower(),)
    return ServedAdapters(number, rank, min(slots or number, number), parts)


@dataclass(frozen=True)
class Beside:
    """Adapters, bytes of weights of each GPU and bytes of KV cache of a copy that lie in the memory of the host.

    With adapters each step takes `lora_slowdown` longer; None: nobody said, and nobody knows.
    """

    adapters: ServedAdapters | None = None
    lora_slowdown: float | None = None
    offloaded_bytes: float = 0.0
    kv_bytes: float = 0.0

    @property
    def has_unknown_pace(self) -> bool:
        """Whether adapters slow steps down by what nobody said."""
        return self.adapters is not None and self.lora_slowdown is None


NOTHING_BESIDE = Beside()


@dataclass(frozen=True)
class AdapterRules:
    """How an engine keeps adapters: a slot has room for the next of `ranks` (empty: for any) on every layer it adapts.

    `takes_experts`: it adapts routed experts, `experts_with_ep` those that lie whole on GPUs too. `is_told_parts`: it
    can be told to adapt some layers alone, else slots have room on all. `may_adapt_ends`: of some models it adapts
    embedding and head as well. It adapts no family in `lacks`. `slowdown_ratio`: how many times longer steps took in
    published runs at most. Versions from `since`, `experts_since` and `parts_since` on do so.
    """

    since: str
    source: str
    ranks: tuple[int, ...] = ()
    experts_since: str | None = None
    parts_since: str | None = None
    experts_with_ep: bool = False
    may_adapt_ends: bool = False
    lacks: tuple[str, ...] = ()
    slowdown_ratio: float = 1.0
    takes_experts: bool = False
    is_told_parts: bool = False

    def slot_rank(self, rank: int) -> int | None:
        """The rank that a slot has room for; None where no slot is as large."""
        return next((r for r in self.ranks if r >= rank), None) if self.ranks else rank


@dataclass(frozen=True)
class HostMemoryRules:
    """Which versions of an engine keep weights, and KV cache, in the memory of the host; None: none."""

    source: str
    weights_since: str | None = None
    kv_since: str | None = None
