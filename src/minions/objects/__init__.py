"""The object store: keys, S3 and files, and signed links."""
