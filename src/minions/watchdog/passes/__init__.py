"""Passes: each looks once and does one thing."""
