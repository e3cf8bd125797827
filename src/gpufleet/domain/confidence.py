"""Confidences that have a name: how surely a limit holds where the expected value does, and at the end of a range."""

EXPECTED, HIGH_END = 0.5, 0.9
"""Half of all measurements lie above what is expected, a tenth above the high end of an 80 % range."""
