"""Views: what pages show, worked out from what was read; pure."""
