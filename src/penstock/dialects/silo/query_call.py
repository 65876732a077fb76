"""The call that asks a query: a few are answered at once, in threads, so that other calls find room."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call
from penstock.dialects.silo.errors import CallError, invalid
from penstock.dialects.silo.query import run_query
from penstock.dialects.silo.query_parse import Bind
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.http.engine_service import EngineService

T = TypeVar("T")

AT_ONCE: Final = 2  # each may keep a processor busy for seconds, and hold its share of memory


async def query(call: Call, sent: pb.QueryRequest) -> pb.QueryResponse:
    """Answer a query over the rows of one tenant."""
    call.check_shard(sent.shard)
    tenant = call.tenant(sent)
    try:
        binds = [_bind(number, each) for number, each in enumerate(sent.parameters)]
        found = await call.service.part(_Queries).run(
            call.service, lambda engine: run_query(sent.sql, binds, tenant, engine)
        )
    except InvalidError as error:
        raise _refused(error) from error
    return pb.QueryResponse(
        columns=[pb.ColumnInfo(name=name, data_type=type_) for name, type_ in found.columns],
        rows=[pb.SerializedBytes(msgpack=row) for row in found.rows],
        row_count=len(found.rows),
    )


def _bind(number: int, sent: pb.QueryParameter) -> Bind:
    kind = sent.WhichOneof("value")
    if kind is None:
        raise InvalidError(f"parameters[{number}]", "has no value")
    found: Bind = None if kind == "null_value" else getattr(sent, kind)
    return found


def _refused(error: InvalidError) -> CallError:
    return invalid(f"SQL error: {error.problem}" if error.field == "sql" else f"SQL parameter error: {error}")


class _Queries:
    """The queries of one server that are being answered."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)

    async def run(self, service: EngineService, work: Callable[[Engine], T]) -> T:
        """Run *work* in a thread once there is room; a caller that goes away leaves its room to the thread."""
        await self._room.acquire()
        asked = asyncio.ensure_future(service.run(work))
        asked.add_done_callback(self._ended)
        return await asyncio.shield(asked)

    def _ended(self, asked: "asyncio.Future[T]") -> None:
        self._room.release()
        if not asked.cancelled():
            asked.exception()  # told to the caller, if it is still there
