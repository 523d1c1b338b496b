"""``forge approvals``: what parked sessions wait for, and the answers to it."""
