"""Looks at everything that an executor needs, and says what is wrong and the way out."""
