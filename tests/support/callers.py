"""Callers that pass a limit, stay inside until told to go, and report their state.

`TaskCaller` and `ThreadCaller` take a slot; `InTask` and `InThread` make such callers of another `Caller`.
"""

import threading

from penstock.policies import LimitExceeded


class Caller:
    """What is known of a caller by what it says of itself."""

    def __init__(self, slot):
        self.slot = slot
        self.refusal = None
        self.inside = self.ended = self.cancelled = False

    def enter(self):
        self.inside = True

    def leave(self):
        self.inside = False

    def cancel(self):
        """Do nothing: a thread cannot be cancelled."""


class InTask:
    """A caller that is a task."""

    def __init__(self, *facts, loop):
        super().__init__(*facts)
        self.go = loop.create_future()
        self.task = loop.create_task(self.run())
        # Also for one that is cancelled before it began.
        self.task.add_done_callback(self.end)

    async def run(self):
        try:
            async with self.slot:
                self.enter()
                try:
                    await self.go
                finally:
                    self.leave()
        except LimitExceeded as refusal:
            self.refusal = refusal

    def end(self, _):
        self.ended = True

    def release(self):
        if not self.go.done():
            self.go.set_result(None)

    def cancel(self):
        self.task.cancel()
        self.cancelled = True


class InThread:
    """A caller that is a thread."""

    def __init__(self, *facts):
        super().__init__(*facts)
        self.go = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            with self.slot:
                self.enter()
                self.go.wait(30)
                self.leave()
        except LimitExceeded as refusal:
            self.refusal = refusal
        self.ended = True

    def release(self):
        self.go.set()


class TaskCaller(InTask, Caller):
    pass


class ThreadCaller(InThread, Caller):
    pass
