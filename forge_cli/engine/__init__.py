"""The gate, the loop and what assembles them."""
