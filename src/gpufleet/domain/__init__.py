"""Nouns: frozen dataclasses that refuse nonsense at birth. No I/O and no equations."""
