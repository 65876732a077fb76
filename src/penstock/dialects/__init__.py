"""Other systems' words over the same engine.  They translate and never decide.

`served` lists the protocols that `penstock serve` speaks; each is a package with a record `DIALECT`, as
`http/dialect.py` describes it.  `pynenc` and `routecraft` are Python APIs.
"""
