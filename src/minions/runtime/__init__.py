"""Clock, logs, loops, signals: what every process needs."""
