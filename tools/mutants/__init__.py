"""Mutation testing: one small change to the code at a time, and whether a test notices."""
