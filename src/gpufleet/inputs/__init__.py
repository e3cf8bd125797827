"""Users' files: read with limits on size and depth, refused with a message that says what to mend."""
