"""Workers whose tools other programs call, each call through the gate of the worker."""
