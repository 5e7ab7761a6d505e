"""Probes: what this machine is doing, one module a fact; a pure `parse_` and a small `read_` each."""
