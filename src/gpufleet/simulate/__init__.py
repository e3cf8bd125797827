"""Requests one by one: when they come, how replicas serve them, and what came of it."""
