"""The server in process, with a real PostgreSQL and real files."""
