"""Patches that a model wrote: parsed, planned for every file, and applied completely or not at all.

``parse`` reads a patch, ``model`` has its values, and ``plan`` computes and applies the new
contents of files. ``replace`` changes a text in one file.
"""
