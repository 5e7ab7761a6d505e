"""Several rooms together, with a real database."""
