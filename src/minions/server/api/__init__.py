"""REST: routes translate between HTTP and actions, and do nothing else."""
