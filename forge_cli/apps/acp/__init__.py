"""``forge serve acp``: a worker in editors that speak the Agent Client Protocol."""
