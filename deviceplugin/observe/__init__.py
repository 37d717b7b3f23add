"""Metrics and probes over published snapshots."""
