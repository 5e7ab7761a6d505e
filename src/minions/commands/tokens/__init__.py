"""Make, list and revoke access tokens."""
