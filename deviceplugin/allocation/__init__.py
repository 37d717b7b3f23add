"""Answers to Allocate and GetPreferredAllocation; pure."""
