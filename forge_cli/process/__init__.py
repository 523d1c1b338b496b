"""The process of a command: signals, standard streams and the end of the process."""
