"""A worker at work: assembling it, running it, and the workers that it starts."""
