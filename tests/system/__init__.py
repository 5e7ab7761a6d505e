"""Whole deployments of real processes, some of which die."""
