"""Short ways to use a server by the names of Orch8."""


class Desk:
    """A client of a server for one tenant."""

    def __init__(self, server, tenant="acme", **headers):
        self.server = server
        self.tenant = tenant
        self.headers = headers

    def put(self, name, *blocks, version=1, **more):
        """Store a sequence; return it."""
        body = {"name": name, "version": version, "tenant_id": self.tenant, "blocks": list(blocks), **more}
        return self.post("/sequences", body)

    def start(self, name, status=201, **more):
        """Create an instance of a sequence; return it."""
        body = {"sequence_name": name, "tenant_id": self.tenant, **more}
        return self.post("/instances", body, status=status)

    def limit(self, key, count, seconds):
        """Set the rate of a resource; return it."""
        body = {"tenant_id": self.tenant, "resource_key": key, "max_count": count, "window_seconds": seconds}
        return self.post("/rate-limits", body)

    def poll(self, handler, worker="w", limit=1, **more):
        """Take tasks of a handler; one that meets another transaction may come back empty, so ask twice."""
        body = {"handler_name": handler, "worker_id": worker, "limit": limit, **more}
        for _ in range(2):
            tasks = self.post("/workers/tasks/poll", body, status=200)
            if tasks or "wait_ms" in more:
                break
        return tasks

    def complete(self, task, worker="w", output=None):
        return self.post(
            f"/workers/tasks/{task['id']}/complete", {"worker_id": worker, "output": output}, status=200
        )

    def look(self, instance):
        return self.get(f"/instances/{instance['id']}")

    def status(self, instance):
        return self.look(instance)["status"]

    def ended(self, *instances, status="completed"):
        """Wait until instances have ended so."""
        self.server.until(lambda: {status} == {self.status(each) for each in instances})

    def get(self, path, status=200):
        answer = self.server.get(
            f"{path}{'&' if '?' in path else '?'}tenant_id={self.tenant}", **self.headers
        )
        assert status == answer.status, answer.body
        return answer.body

    def post(self, path, body=None, status=201):
        answer = self.server.post(path, body, **self.headers)
        assert status == answer.status, answer.body
        return answer.body

    def delete(self, path, status=204):
        answer = self.server.delete(f"{path}?tenant_id={self.tenant}", **self.headers)
        assert status == answer.status, answer.body


def step(id_, handler, **more):
    return {"id": id_, "type": "step", "handler": handler, **more}


def call(id_, provider, path="/", key=None, **params):
    """Return a step that posts to a provider."""
    block = step(id_, "http_request", params={"url": provider.url + path, "method": "POST", **params})
    return block if key is None else {**block, "rate_limit_key": key}
