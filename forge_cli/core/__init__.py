"""The words everybody speaks; imports nothing else of forge."""
