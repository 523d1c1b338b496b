"""How the names of files begin that may hold secrets; without imports, since every search starts a process with it."""

DOT_ENV = ".env"
