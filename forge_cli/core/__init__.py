"""The values and protocols that every layer shares; imports nothing else of forge."""
