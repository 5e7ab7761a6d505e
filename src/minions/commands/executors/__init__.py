"""Look at the machines that do the work, or give one up."""
