"""Requests replayed on replicas, step by step: what bursts, long prompts, cold starts and failures do to latencies."""
