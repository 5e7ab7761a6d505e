"""The supervisor of commands: starts each in a session of its own, bounds what it prints, and leaves nothing behind.

A `Supervisor` (supervisor.py) asks one launcher process (launcher.py) to fork a job, write down who it is (record.py,
journal.py) and only then let it become the command. `sweep` (sweep.py) stops what an earlier executor left. Which
processes are ours is decided in belonging.py, purely; processes.py is the seam between Linux and macOS. Nothing here
needs more than Python itself: it travels to hosts in one file.
"""
