"""One suite per seam, met by every implementation."""
