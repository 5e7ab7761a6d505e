"""Tests of the pure parts of hosts."""
