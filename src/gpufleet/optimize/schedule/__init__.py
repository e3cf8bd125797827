"""Jobs with deadlines on shared GPUs: when and where each runs, as all are known or as they arrive."""
