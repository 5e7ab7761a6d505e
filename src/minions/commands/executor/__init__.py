"""Lend this machine, and say when and to whom."""
