"""A job with a deadline, a service or a fleet on machines that may be taken away; and a log beside its policy."""
