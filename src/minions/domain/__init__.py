"""Pure rules and values: no I/O, no clock, no environment."""
