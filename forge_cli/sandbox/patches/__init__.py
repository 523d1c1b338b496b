"""Patches: text that a model wrote, read, planned on every file it names, and carried out as a whole or not at all.

``parse`` reads it, ``model`` says what it wants of which path, ``plan`` says what every file would become, and makes
it so. ``replace`` is for a text in one file.
"""
