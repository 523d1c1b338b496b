"""Isolation: confining child processes by the operating system."""
