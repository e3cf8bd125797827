"""Fits the tables of `src/gpufleet/data/calibration` to measurements; development only."""
