"""What every process has."""
