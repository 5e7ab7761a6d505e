"""The embedded deployment: everything on one machine, started and stopped together."""
