"""Scores the api against measurement files: the same calls as everybody, nothing special to a row or a source."""
