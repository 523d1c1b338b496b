"""Commands on copies: overlays over the zones, what a command did there, and how that gets into the zones or not."""
