"""Keys and links."""
