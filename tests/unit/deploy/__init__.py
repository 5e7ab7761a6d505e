"""What is shipped for deployments."""
