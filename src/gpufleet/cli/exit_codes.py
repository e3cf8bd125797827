"""Exit codes that no error of the user's has; those are in `gpufleet.errors`. Nothing is imported here."""

OUR_BUG = 1
INTERRUPTED = 130
