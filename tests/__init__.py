"""The tests of Minions."""
