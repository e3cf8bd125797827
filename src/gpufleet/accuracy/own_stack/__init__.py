"""One's own runs of an engine on a GPU, as factors on what is predicted of it."""
