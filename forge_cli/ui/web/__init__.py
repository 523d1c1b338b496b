"""A session in a browser: who may connect, what every open tab is sent, and the page itself."""
