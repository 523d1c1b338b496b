"""Tools and configs from what people write, with JSON Schema below them."""
