"""Looking is not running: third-party code that must be loaded to be looked at is loaded in a confined child."""
