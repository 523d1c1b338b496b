"""The process around a command: its signals, its standard streams, and an end that always comes."""
