"""Pages: one file for each, with its routes and the pure functions that shape what its template shows."""
