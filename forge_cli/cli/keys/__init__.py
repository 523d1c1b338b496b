"""Keys of providers, stored for this user."""
