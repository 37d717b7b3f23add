"""Annotated examples of configs, simulated machines, and the schema of the config file."""
