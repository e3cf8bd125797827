"""Questions, each in a folder of its own: its words, what is found, the shape of the answer, and its page."""
