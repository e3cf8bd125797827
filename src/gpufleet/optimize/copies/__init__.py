"""What one copy of a model sustains: one file for each kind of model."""
