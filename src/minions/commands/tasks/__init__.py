"""Look at tasks, steer them, and fetch their results."""
