"""What people see; knows events, never the engine."""
