"""Which machines carry requests that differ, at least cost: greedy at once, then an integer programme with its gap."""
