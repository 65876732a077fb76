"""How it was: what happened in each minute, by gate, queue and task, from what each transaction changed."""
