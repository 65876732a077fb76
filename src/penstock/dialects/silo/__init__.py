"""Silo's words over the engine: its clients and workers speak gRPC to `penstock serve --silo`.

`server` lets calls in, `methods` lists them; `jobs`, `workers` and `query_call` answer a `call`.  `new_job` and
`limits` read what clients send, `stored` says how a job of theirs is kept, `shown` and `errors` write; `query` and the
modules that begin so answer SQL.  `silo_pb2` is written from `silo.proto` by the protobuf compiler (`make proto`).
"""
