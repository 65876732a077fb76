"""How fast, and how exact, on this machine?"""
