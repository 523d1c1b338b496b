"""JSON Schema: what it admits, how args are checked against it, and the schemas of functions and models."""
