"""Answers as text, markdown, CSV and JSON. Nothing is computed here."""
