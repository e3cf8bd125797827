"""Requests replayed one by one on replicas, and what is measured of a replay."""
