"""The only reader of the shipped tables, and of user overlays in the same schemas."""
