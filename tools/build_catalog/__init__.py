"""Builds the tables of `src/gpufleet/data` from a directory of gathered facts; development only."""
