"""A session as HTML: results, entries of a transcript and requests, escaped and without style or script."""
