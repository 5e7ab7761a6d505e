"""The executor of commands: acquires jobs, runs them in worktrees of their commit, and delivers their outputs.

Only the standard library, so that it can be sent to a host as it is. `main.py` runs it, `agent.py` is its loop,
`run_job.py` one job, `outbox.py` what is finished and not delivered yet.
"""
