"""Imported by a process that forge is forked from: it does not wait between two attempts to reach a model."""

import random

random.uniform = lambda low, high: 0.001  # type: ignore[assignment]
