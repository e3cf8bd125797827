"""Files that watch a plan."""
