"""What users get: pydantic models with a schema version; they hold figures and compute nothing."""
