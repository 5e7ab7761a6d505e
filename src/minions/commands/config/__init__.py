"""Look at the settings."""
