"""The control channel: how this machine's owner speaks to the executor that runs here."""
