"""From a file's text to the rules the daemon plans by."""
