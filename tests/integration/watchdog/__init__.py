"""The watchdog with a real PostgreSQL."""
