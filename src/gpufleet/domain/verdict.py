"""Whether something has room, in the words that users read; tight counts as fitting."""

FITS, TIGHT, DOES_NOT_FIT = "fits", "tight", "does not fit"
