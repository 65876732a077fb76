"""How a body restarts."""


class Restart(Exception):  # noqa: N818 - an end, not an error
    """Restart the workflow with these arguments, an empty memo and the same slots; return or raise it."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args)
        self.kwargs = kwargs
