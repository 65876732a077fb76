"""May this job start?  Lanes, lines and gates as one transaction works on them.

`claiming` decides: it asks `Board.test`, which asks `limits/gate.py`.  ARCHITECTURE has the algorithm.
"""
