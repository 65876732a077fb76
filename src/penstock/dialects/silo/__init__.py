"""Silo's words over the engine: its clients and workers speak gRPC to `penstock serve --silo`.

`server` runs the gRPC server, `calls` are what it offers, `errors` how each refusal is written.  `new_job` and `limits`
read what clients send, `stored` says how a job of theirs is kept, `shown` writes it back.
`silo_pb2` is written from `silo.proto` by the protobuf compiler (`make proto`).
"""
