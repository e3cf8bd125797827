"""Several models for one load: what each needs by itself, and which costs least."""
