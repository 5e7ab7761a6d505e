"""What every object store does."""
