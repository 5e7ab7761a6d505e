"""Tests of the embedded deployment's parts."""
