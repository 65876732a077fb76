"""Other systems' words over the same engine.  They translate and never decide.

`served` lists the protocols that `penstock serve` speaks over HTTP; each is a package with a record `DIALECT`, as
`http/dialect.py` describes it.  `silo` speaks gRPC, on a port of its own.  `pynenc` and `routecraft` are Python APIs.
"""
