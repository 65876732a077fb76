"""The handlers of steps that the server runs itself."""
