"""Look at the machines that do the work."""
