"""Seconds: what every operator of a model takes on one device, and what steps and engines make of it."""
