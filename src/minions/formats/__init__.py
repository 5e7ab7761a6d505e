"""Rows in and parts out: JSON lines, CSV and Parquet."""
