"""The server: REST API, splitting, finishing."""
