"""Which parallel layouts a model can take, and why the others are refused."""
