"""Lock files of workers: every part of a worker, as a team has reviewed it."""
