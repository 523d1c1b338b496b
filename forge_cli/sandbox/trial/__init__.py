"""Commands on copies: overlays over the zones, the changes there, and applying them."""
