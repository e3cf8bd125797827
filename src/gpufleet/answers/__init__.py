"""From what was solved to what users get: figures with ranges and words."""
