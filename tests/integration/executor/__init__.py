"""Executors against a real server and a real PostgreSQL."""
