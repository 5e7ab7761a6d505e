"""The machines that `minions run` uses."""
