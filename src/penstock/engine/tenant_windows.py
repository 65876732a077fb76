"""Which tenants does a claim look at, where there are more than one claim can look at?

Each claim looks at a window of them, in the order of their names, that begins after the tenant that was served last;
if it finds too few jobs there, the next one goes on where it ended.  What is remembered is this process's own, and only
a matter of where to begin: which of the tenants in a window comes first is in the store.
"""


class Windows:
    """For each set of queues, beyond which tenant the next claim looks."""

    def __init__(self) -> None:
        # With it, whether all tenants up to there were looked at in vain.
        self._beyond: dict[tuple[str, ...], tuple[str, bool]] = {}

    def beyond(self, queues: tuple[str, ...]) -> str | None:
        """Return the tenant after which the next claim begins; None if it begins with the first."""
        return self._beyond[queues][0] if queues in self._beyond else None

    def filled(self, queues: tuple[str, ...], last: str, *, crowded: bool) -> None:
        """Begin after the tenant that was served *last*, if there are more than one claim can look at."""
        self._beyond.pop(queues, None)
        if crowded:
            self._beyond[queues] = last, False

    def unfilled(self, queues: tuple[str, ...], cut: str | None) -> bool:
        """Go on after a claim that looked up to *cut* and found too few jobs; tell whether to look again at once."""
        _, in_vain = self._beyond.pop(queues, (None, True))
        if cut is not None:
            self._beyond[queues] = cut, in_vain
        return cut is not None or not in_vain
