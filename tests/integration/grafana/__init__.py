"""What Grafana asks the database, asked of a real one."""
