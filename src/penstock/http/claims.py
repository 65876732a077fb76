"""Jobs that were claimed for an answer that is not sent yet."""

from penstock.job import Claimed


class Claims:
    """The jobs claimed for one request.  Until its answer is being sent they can be given back."""

    __slots__ = ("jobs",)

    def __init__(self, jobs: list[Claimed] | None = None) -> None:
        self.jobs = jobs or []

    def unheard(self) -> list[Claimed]:
        """Return the jobs to give back because the answer will not arrive."""
        jobs, self.jobs = self.jobs, []
        return jobs
