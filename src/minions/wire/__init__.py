"""The messages between processes, and the problem documents (RFC 9457)."""
