"""The web interface: pages for people, rendered here, kept fresh by one small stream of what changed."""
