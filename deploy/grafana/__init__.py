"""Grafana: dashboards as code, and what provisions them. `make dashboards` writes the JSON that is shipped."""
