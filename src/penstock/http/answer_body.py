"""Read the body of an answer from another server, bounded, however its length is told."""

import asyncio
from collections.abc import Mapping
from typing import Final

_PIECE: Final = 64 * 1024


async def read_answer(reader: asyncio.StreamReader, headers: Mapping[str, str], most: int) -> bytes:
    """Return the body; raise OSError if it has more than *most* bytes, or ends early."""
    try:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await _chunked(reader, most)
        if "content-length" in headers:
            return await reader.readexactly(_checked(int(headers["content-length"]), most))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        raise OSError("the answer ended early, or is not HTTP") from None
    return await _until_end(reader, most)


async def _chunked(reader: asyncio.StreamReader, most: int) -> bytes:
    parts, size = [], 0
    while length := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        size = _checked(size + length, most)
        parts.append(await reader.readexactly(length))
        await reader.readexactly(2)
    return b"".join(parts)


async def _until_end(reader: asyncio.StreamReader, most: int) -> bytes:
    parts, size = [], 0
    while part := await reader.read(_PIECE):
        size = _checked(size + len(part), most)
        parts.append(part)
    return b"".join(parts)


def _checked(size: int, most: int) -> int:
    if not 0 <= size <= most:
        raise OSError(f"the answer has more than {most:,} bytes")
    return size
