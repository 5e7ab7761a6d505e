"""The agent: what one connection starts on a host, sent as text; Python 3.9 and its standard library are enough."""
