"""The faces of forge: they know events, never the engine."""
