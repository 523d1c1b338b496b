"""The network of confined commands: names that rules cover, others by consent, all through a proxy that forge keeps."""
