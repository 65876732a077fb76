"""May this job start?  Lanes, lines and gates as one transaction works on them: ARCHITECTURE has the algorithm."""
