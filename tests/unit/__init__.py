"""Pure rules; mirrors src/minions."""
