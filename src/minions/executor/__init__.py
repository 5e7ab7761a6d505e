"""The executor: pulls subtasks, runs an engine on them, and delivers parts."""
