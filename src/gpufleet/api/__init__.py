"""The one facade: load, call, return an answer. Each question has a module of its own."""

from gpufleet.api.fit import fit

__all__ = ["fit"]
