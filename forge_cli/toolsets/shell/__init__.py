"""The toolset ``shell``: command lines, judged one simple command at a time."""
