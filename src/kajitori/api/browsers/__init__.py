"""Sessions of browsers: cookies instead of tokens. Begin with `sessions.BrowserSessions`."""
