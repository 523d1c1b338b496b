"""``forge batch``: one worker on many inputs."""
