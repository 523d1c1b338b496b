"""``forge approvals``: requests that wait for an answer, and past answers."""
