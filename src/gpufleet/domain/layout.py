"""How one model copy is spread over GPUs."""

from __future__ import annotations

from gpufleet.records import dataclass


@dataclass(frozen=True)
class Layout:
    """One replica on `tp * attention_dp * pp` GPUs.

    TP splits attention heads and dense MLPs; attention-DP gives each group of TP ranks its own requests; the
    experts of an MoE are spread over all `tp * attention_dp` ranks of a stage: whole experts over `ep` of them,
    each expert cut in `moe_tp`.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "ep", "attention_dp"):
            if getattr(self, name) < 1:
                raise ValueError(f"layout: {name} must be at least 1, found {getattr(self, name)!r}")
        if (self.tp * self.attention_dp) % self.ep:
            raise ValueError(f"layout: EP {self.ep} does not divide the {self.tp * self.attention_dp} GPUs of a stage")

    @property
    def num_devices(self) -> int:
        """GPUs of one replica."""
        return self.devices_per_stage * self.pp

    @property
    def devices_per_stage(self) -> int:
        """GPUs that exchange data in every layer: those of one pipeline stage."""
        return self.tp * self.attention_dp

    @property
    def moe_tp(self) -> int:
        """Parts that each routed expert is cut into."""
        return self.tp * self.attention_dp // self.ep

    @property
    def label(self) -> str:
        """Field shorthand: TP4, TP8/EP8, DP8xTP1/EP8, TP4/PP2."""
        parts = [f"TP{self.tp}"]
        if self.attention_dp > 1:
            parts.append(f"DP{self.attention_dp}")
        if self.ep > 1:
            parts.append(f"EP{self.ep}")
        if self.pp > 1:
            parts.append(f"PP{self.pp}")
        return "/".join(parts)
