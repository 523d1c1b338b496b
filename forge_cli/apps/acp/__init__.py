"""``forge serve acp``: a worker in editors that support the Agent Client Protocol."""
