"""Engines: what turns rows into outcomes. They live in a child process, the engine host."""
