"""Tools from what people write: functions and their signatures, JSON Schema, path arguments, sections of files."""
