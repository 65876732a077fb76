"""Every statement of the store is in the language of `penstock.store.statements`, and both databases accept it.

Statements are collected from the source.  Those that are put together from arguments have examples below.
"""

import ast
import importlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import penstock
from penstock.job import AuditEntry, AuditFilter, JobFilter, JobQuery
from penstock.lifecycle.states import State
from penstock.store import (
    attempts,
    audit,
    gates,
    instances,
    jobs,
    leases,
    lending,
    look_jobs,
    look_lists,
    prune,
    queues,
    rate_resources,
    resources,
    schedules,
    sequences,
    surveys,
    touched,
    views,
    waiting,
    webhooks,
    workers,
    workflows,
)  # fmt: skip
from penstock.store import parts as parts_apart
from penstock.store.postgres import translation as postgres
from penstock.store.sqlite import translation as sqlite
from penstock.store.statements import Part, for_rows, parts
from tests.support.postgres import split_schema

SOURCE = Path(penstock.__file__).parent
METHODS = {"all", "one", "run", "many", "last"}
FOR_ROWS = {"many", "last"}
POSTGRES_ONLY = ("attempts.start_first:", "postgres.")
# Steps of the schema are not in the language; `tests/schema` has what comes of them.
APART = ("migrations.", "sqlite.")

EVERY_FILTER = JobFilter(
    states=frozenset({"scheduled", "retrying", "waiting", "running", "done"}), queues=frozenset({"q"}), task="t",
    task_prefix="t", tenant="x", since=1, until=2, ended_before=3,
)  # fmt: skip
EVERY_QUERY = JobQuery(
    queue="q", task="t", key="k", tenant="x", worker="w", words="a", error="e", since=1, until=2
)
EXAMPLES = [
    lambda db: gates.sweep(db, 0, 1, 2),
    lambda db: [workers.all_of(db, tenant) for tenant in (None, "x")],
    lambda db: audit.add(db, AuditEntry(1, 2, *"abcdef", None, None, "g")),
    lambda db: [
        audit.page(db, wanted, before, 3)
        for wanted in (AuditFilter(), AuditFilter("a", "b", "c", "d", "e", "f", 1, 2))
        for before in (None, 1)
    ],
    *(
        partial(look_jobs.found, wanted=query, now=1, before=9, looked_at=2, most=1)
        for query in [EVERY_QUERY, *(JobQuery(state=state) for state in State)]
    ),
    *(
        partial(look_jobs.looked, wanted=JobQuery(state=state), before=9, looked_at=2)
        for state in [None, *State]
    ),
    partial(look_lists.queues, counted=2),
    lambda db: touched.of_queue(db, ("x", "q"), 2),
    lambda db: waiting.schedule(db, [(1, 2, 0, 0)]),
    lambda db: waiting.put_off(db, [(1, 2, 0, 0, "")]),
    lambda db: [attempts.of(db, scope, "x", "y") for scope in ("queue", "type", "tenant")],
    lambda db: [
        jobs.leave(db, table, 1) for table in ("lane_job", "ready", "scheduled", "door", "successor")
    ],
    lambda db: jobs.leave_free(db, [1]),
    lambda db: [
        jobs.set_made(db, table, (1, 0), 1) for table in ("lane_job", "ready", "scheduled", "door", "done")
    ],
    lambda db: [waiting.due_at_once(db, table, 1) for table in ("successor", "door")],
    lambda db: [leases.running(db, ["a"], tenant) for tenant in (None, "x")],
    lambda db: (parts_apart.known(db, [("q", "t")], 1), parts_apart.refused(db, [("q", "t")], 1)),
    lambda db: jobs.revive(db, 1),
    lambda db: lending.forget_holder(db, 1),
    lambda db: [queues.pools(db, tenant) for tenant in (None, "x")],
    lambda db: prune.forget(db, 1),
    lambda db: [queues.running(db, ["q"], tenant) for tenant in (None, "x")],
    prune.everything,
    lambda db: [resources.groups(db, tenant) for tenant in (None, "x")],
    lambda db: [(schedules.page(db, tenant, 0, 1), schedules.total(db, tenant)) for tenant in (None, "x")],
    lambda db: [schedules.page(db, tenant, 0, 1, of_sequences=True) for tenant in (None, "x")],
    lambda db: [schedules.total(db, tenant, of_sequences=True) for tenant in (None, "x")],
    lambda db: [
        (surveys.page(db, place, 2, 1), surveys.census(db, place, 1, 2, "x", 3)) for place in surveys.PLACES
    ],
    lambda db: (surveys.sizes(db, surveys.TEXTS, [1]), surveys.texts(db, surveys.TEXTS, [1])),
    lambda db: [views.search(db, 0, wanted, 0, 1) for wanted in (EVERY_FILTER, JobFilter())],
    lambda db: views.ids(db, 0, EVERY_FILTER, 1),
    lambda db: views.total(db, 0, EVERY_FILTER),
    lambda db: [views.jobs(db, 0, state, "q", "t", "x", "k", 1, "b", 1) for state in (*State, None)],
    lambda db: [views.count(db, *which) for which in ((None, None), ("q", "t", "x"))],
    lambda db: [views.gates(db, tenant, "k", 0, 1) for tenant in (None, "x")],
    lambda db: [views.gates_total(db, tenant, "k") for tenant in (None, "x")],
    lambda db: [webhooks.all_of(db, tenant) for tenant in (None, "x")],
    lambda db: [workflows.page(db, *which, 0, 1) for which in ((None, None), ("x", "done"))],
    lambda db: [workflows.total(db, *which) for which in ((None, None), ("x", "done"))],
    lambda db: instances.forget_all(db, 1),
    lambda db: instances.stop_waiting(db, [1], 2),
    lambda db: [instances.of_id(db, "a", tenant, 5) for tenant in (None, "x")],
    lambda db: [
        (instances.page(db, wanted, 0, 1), instances.total(db, wanted))
        for tenant in (None, "x")
        for state in ("done", "scheduled", "deferred", "running", "paused")
        for wanted in (
            instances.WantedInstances(tenant, "w", (state,)),
            instances.WantedInstances(sequence="s", namespace="n"),
        )
    ],
    lambda db: [
        (instances.waits_page(db, "p", tenant, 0, 1, space), instances.waits_total(db, "p", tenant, space))
        for tenant in (None, "x")
        for space in (None, "n")
    ],
    lambda db: [sequences.of_id(db, "s", tenant) for tenant in (None, "x")],
    lambda db: [rate_resources.page(db, tenant, 0, 1) for tenant in (None, "x")],
    lambda db: [sequences.of_name(db, "x", "n", "s", version) for version in (None, 1)],
    lambda db: [sequences.page(db, *which, 0, 1) for which in ((None, None, None), ("x", "n", "s"))],
]


class Statement(NamedTuple):
    """A statement, and the method of a session that is given it."""

    where: str  # module, function and line
    method: str
    sql: str

    @property
    def columns(self) -> int:
        return len(for_rows(self.sql).columns)


class Recorder:
    """A session that finds nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.given: list[Statement] = []

    def __getattr__(self, method: str) -> object:
        if method not in METHODS:
            return lambda *_: None

        def note(sql: str, *_: object) -> object:
            frame = sys._getframe(1)
            module = frame.f_globals["__name__"].removeprefix("penstock.store.")
            function = frame.f_code.co_qualname.partition(".")[0]  # also if a comprehension asks
            self.given.append(Statement(f"{module}.{function}:{frame.f_lineno}", method, sql))
            return {"all": [], "run": 1}.get(method)

        return note


def statements() -> list[Statement]:
    """Return every statement of the store; fail if one is put together and has no example."""
    recorder = Recorder()
    for example in EXAMPLES:
        example(recorder)
    examples = {given.where for given in recorder.given}
    found, missing = list(recorder.given), []
    for module, function, call in calls(SOURCE / "store"):
        where = f"{module.removeprefix('penstock.store.')}.{function}:{call.lineno}"
        try:
            asked = compile(ast.Expression(call.args[0]), where, "eval")
            sql = eval(asked, vars(importlib.import_module(module)))
            found.append(Statement(where, call.func.attr, sql))
        except NameError:
            if where not in examples and not where.startswith(APART):
                missing.append(where)
    assert not missing, "no example of a statement that is put together from arguments"
    return [each for each in found if not each.where.startswith(APART)]


def calls(folder: Path) -> Iterator[tuple[str, str, ast.Call]]:
    """Find the calls of a session's methods: module, function and call."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = ".".join(inside).removesuffix(".__init__")
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((module, function.name, call) for call in ast.walk(function) if of_session(call))


def of_session(call: ast.AST) -> bool:
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in METHODS
        and ast.unparse(call.func.value).rpartition(".")[2] in {"db", "session", "self"}
        and bool(call.args)
    )


def on_sqlite(connection: sqlite3.Connection, each: Statement) -> None:
    if each.method in FOR_ROWS:
        sql, values = sqlite.several(each.sql), each.columns
    else:
        sql, values = sqlite.single(each.sql), len(values_of(each))
    connection.execute(f"EXPLAIN {sql}", [None] * values)


def on_postgres(connection: psycopg.Connection, each: Statement) -> None:
    if each.method in FOR_ROWS:
        rest = each.columns - 1
        for once in (False, True):
            prepared(connection, postgres.several(each.sql, (False, *[once] * rest))[0])
    else:
        lists = [part for part in values_of(each) if part is not Part.VALUE]
        *others, last = product(["bigint", "text"], repeat=len(lists))
        if not any(prepared(connection, postgres.single(each.sql, types), quiet=True) for types in others):
            prepared(connection, postgres.single(each.sql, last))


def values_of(each: Statement) -> list[Part]:
    return [part for part, _ in parts(each.sql) if part in {Part.VALUE, Part.AMONG, Part.ROWS}]


def prepared(connection: psycopg.Connection, text: str, *, quiet: bool = False) -> bool:
    with suppress(*[psycopg.Error] * quiet):
        if not text.startswith("SET "):  # which cannot be prepared
            connection.execute(f"PREPARE statement AS {text}")
            connection.execute("DEALLOCATE statement")
        return True
    return False


@contextmanager
def preparing(store: str, url: str) -> Iterator[Callable[[Statement], None]]:
    if store == "sqlite":
        with closing(sqlite3.connect(url)) as connection:
            yield partial(on_sqlite, connection)
    else:
        plain, schema = split_schema(url)
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(f"SET search_path = {schema}")
            yield partial(on_postgres, connection)


def test_the_database_accepts_every_statement(store, url, opened):
    opened()
    refused = []
    with preparing(store, url) as prepare:
        for each in statements():
            if store == "sqlite" and each.where.startswith(POSTGRES_ONLY):
                continue
            try:
                prepare(each)
            except (AssertionError, sqlite3.Error, psycopg.Error) as error:
                refused.append(f"{each.where}: {error}")

    assert not refused, "\n".join(refused)


def test_only_the_store_has_statements():
    found = [f"{module}:{call.lineno}" for module, _, call in calls(SOURCE) if "db" in ast.unparse(call.func)]

    assert [where for where in found if not where.startswith("penstock.store.")] == []


def test_no_statement_hides_behind_another_name():
    """A method of a session that is passed on, as in `write = db.many`, would keep its statement from being found."""
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        named = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in METHODS]
        passed = [n for n in named if id(n) not in called and ast.unparse(n.value).rpartition(".")[2] == "db"]

        assert [f"{path}:{node.lineno}" for node in passed] == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM each(?)",
        "SELECT 1 FROM job WHERE seq IN (SELECT value FROM each(?) LIMIT 1)",
        "SELECT 1 FROM job WHERE seq IN EVERY (1, 2)",
        "SELECT 1 FROM job FOR SHARE",
        "SELECT 1 FROM job WHERE id = $1",
        "SELECT 1 FROM job -- WHERE id = ?",
        "SELECT 'it''s FROM job",
        "SELECT (1 FROM job",
        "SELECT 1) FROM job",
    ],
)
def test_what_is_outside_the_language_is_refused_for_both(sql):
    for translated in (sqlite.single, lambda sql: postgres.single(sql, ("bigint",))):
        with pytest.raises(AssertionError, match="outside the language"):
            translated(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM job WHERE seq = ?",
        "DELETE FROM job",
        "DELETE FROM job WHERE seq > ?",
        "DELETE FROM job WHERE seq IN (SELECT value FROM each(?))",
        "UPDATE job SET seq = seq + ? WHERE seq = ?",
        "UPDATE job SET seq = (SELECT 1 FROM done WHERE seq = ?) WHERE seq = ?",
        "INSERT INTO job (seq, id) VALUES (?)",
        "INSERT INTO job (seq) VALUES (? + 1)",
        "INSERT INTO job (seq) VALUES (?) ON CONFLICT (seq) DO UPDATE SET seq = ?",
        "INSERT INTO job (seq) SELECT ?",
    ],
)
def test_what_cannot_be_run_for_many_rows_is_refused_for_both(sql):
    for translated in (sqlite.several, lambda sql: postgres.several(sql, (False, False))):
        with pytest.raises(AssertionError, match="outside the language"):
            translated(sql)


def test_additions_are_translated_and_literals_are_not():
    sql = """
        SELECT 'each(?) it''s ?', (SELECT 1) FROM job WHERE id = ? AND seq IN EVERY (SELECT (SELECT e.value)
        FROM each(?) e) AND cost IN (SELECT value FROM each(?)) FOR UPDATE OF job SKIP LOCKED"""

    assert " ".join(sqlite.single(sql).split()) == (
        "SELECT 'each(?) it''s ?', (SELECT 1) FROM job WHERE id = ? AND seq IN (SELECT (SELECT e.value) "
        "FROM json_each(?) e) AND cost IN (SELECT value FROM json_each(?))"
    )
    assert " ".join(postgres.single(sql, ("text", "bigint")).split()) == (
        "SELECT 'each(?) it''s ?', (SELECT 1) FROM job WHERE id = $1 AND seq = ANY(ARRAY(SELECT (SELECT e.value) "
        "FROM unnest($2::text[]) AS e(value))) AND cost = ANY($3::bigint[]) FOR UPDATE OF job SKIP LOCKED"
    )
