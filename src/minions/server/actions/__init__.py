"""Actions: one verb, one transaction."""
