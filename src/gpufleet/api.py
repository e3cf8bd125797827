"""The one facade: load, call, return an answer."""
