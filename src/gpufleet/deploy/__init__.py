"""From an answer to what runs it: what is typed to start one replica."""
