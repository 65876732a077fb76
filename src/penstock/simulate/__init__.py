"""How long would jobs wait?  Plays a plan through the real engine, in virtual time."""
