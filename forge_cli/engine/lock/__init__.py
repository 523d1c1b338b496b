"""The lock of a worker: everything that it consists of, as the team has reviewed it."""
