"""The network of confined commands, reached only through a proxy of forge.

Rules cover some names; the others ask.
"""
