"""The built-in model providers, which are plugins like any other."""
