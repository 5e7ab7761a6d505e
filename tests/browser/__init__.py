"""What people do in a browser, against a deployment of real processes."""
