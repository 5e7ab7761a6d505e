"""What a deployment of one's own starts from."""
