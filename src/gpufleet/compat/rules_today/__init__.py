"""What the catalog and the model answer to the questions that the seeds' calculators answer by rules of thumb."""
