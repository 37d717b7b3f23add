"""One module per vendor."""
