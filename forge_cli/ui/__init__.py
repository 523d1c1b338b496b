"""User interfaces of forge; they know events, never the engine."""
