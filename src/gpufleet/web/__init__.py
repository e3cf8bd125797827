"""`gpufleet serve`: every question over HTTP, as JSON and as plain forms; what may be asked comes from the verbs."""
