"""A session as HTML: results, transcript entries and requests, escaped and without scripts."""
