"""What a plan's copies do now, beside what the plan says."""
