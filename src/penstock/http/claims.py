"""Jobs that were claimed for an answer that is not sent yet."""

from penstock.job import Claimed


class Claims:
    """What was claimed for one request.  Until its answer is being sent, `unheard` says what to give back."""

    __slots__ = ("jobs",)

    def __init__(self, jobs: list[Claimed] | None = None) -> None:
        self.jobs = jobs or []

    def unheard(self) -> list[Claimed]:
        """Return the jobs to give back because the answer will not be heard."""
        jobs, self.jobs = self.jobs, []
        return jobs
