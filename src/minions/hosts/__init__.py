"""One's own machines over SSH: reached, made ready, and given an executor; see docs/decisions/0005-commands.md."""
