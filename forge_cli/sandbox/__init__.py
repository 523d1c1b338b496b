"""Confinement of tools: zones, files, processes, isolation, network and secrets."""
