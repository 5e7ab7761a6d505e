"""The `minions` command line: one file for each verb."""
