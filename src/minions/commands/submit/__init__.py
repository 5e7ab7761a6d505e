"""Hand in a batch."""
