"""Rules that watch what a plan promised, and a reader of what is measured: nothing runs or stores anything."""
