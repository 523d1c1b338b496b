"""JSON Schema: fields, validation of args, and the schemas of functions and models."""
