"""The style sheet, the modules and the icon: read once, and told apart by what they hold."""

import hashlib
from importlib import resources
from typing import Final

from penstock.errors import NotFoundError
from penstock.monitor.answers import Answer
from penstock.monitor.requests import Asked

PATH: Final = "/static/"
_MEDIA: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class StaticFiles:
    """Every file of the folder `static`, by name."""

    def __init__(self) -> None:
        folder = resources.files("penstock.monitor") / "static"
        self._files = {
            file.name: file.read_bytes()
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in _MEDIA
        }
        self._tags = {
            name: f'"{hashlib.sha256(body).hexdigest()[:32]}"' for name, body in self._files.items()
        }

    def answer(self, asked: Asked) -> Answer:
        """Return the file that was asked for; the browser keeps it as long as it is the same."""
        name = asked.path.removeprefix(PATH)
        if name not in self._files:
            raise NotFoundError("file", name)
        headers = {"ETag": self._tags[name], "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        media = _MEDIA[name.rpartition(".")[2]]
        if asked.headers.get("if-none-match") == self._tags[name]:
            return Answer(status=304, media=media, headers=headers)
        return Answer(self._files[name], media=media, headers=headers)
