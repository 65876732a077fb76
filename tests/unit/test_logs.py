"""Logs as people and programs read them."""

import io
import json
import logging
import re
import sys
import threading

import pytest

from penstock import App
from penstock.logs import JobFields, JobStream, JsonFormatter, TextFormatter, log_to_stderr
from penstock.worker import current_job

FORGED = "all is well\n2026-01-01 00:00:00.000 ERROR   all is lost"
HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO   |WARNING|ERROR  ) ")


@pytest.fixture
def logger():
    """The root, with nothing but what the test puts there."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    root.setLevel(logging.INFO)
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def formatted(formatter, message, *args, name="shop", level=logging.INFO, error=None, **fields):
    record = logging.getLogger(name).makeRecord(name, level, "f.py", 1, message, args, None, extra=fields)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    return formatter.format(record)


def raised(message):
    with pytest.raises(ValueError) as found:
        raise ValueError(message)
    return found.value


class Untold:
    """What cannot even be shown."""

    def __str__(self):
        raise RuntimeError("no words")


class TestText:
    def test_a_line_says_when_and_how_grave_and_what(self):
        line = formatted(TextFormatter(), "sold %d", 3)

        assert HEAD.match(line)
        assert line.endswith(" INFO    sold 3")

    def test_what_a_handler_logs_names_its_job(self):
        line = formatted(TextFormatter(), "sold", task="shop.sell", job_id="j1")

        assert line.endswith(" shop.sell j1: sold")

    def test_what_is_told_of_a_job_names_it_already(self):
        line = formatted(
            TextFormatter(), "shop.sell j1 done", name="penstock.jobs", task="shop.sell", job_id="j1"
        )

        assert line.endswith(" INFO    shop.sell j1 done")

    @pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\x0b"])
    def test_whatever_ends_a_line_cannot_begin_a_record(self, end):
        forged = FORGED.replace("\n", end)
        text = formatted(TextFormatter(), forged, task=forged, job_id="j1", error=raised(forged))

        first, *others = text.splitlines()
        assert HEAD.match(first)
        assert others
        assert all(line.startswith("    ") for line in others)

    def test_nothing_in_a_message_acts_on_the_terminal(self):
        assert "\x1b" not in formatted(TextFormatter(), "\x1b[2Jgone")

    def test_colours_are_for_terminals(self):
        assert "\x1b" not in formatted(TextFormatter(), "sold", level=logging.ERROR)
        assert "\x1b[31mERROR" in formatted(TextFormatter(colour=True), "sold", level=logging.ERROR)

    def test_a_traceback_comes_once(self):
        text = formatted(TextFormatter(), "failed", error=raised("x"))

        assert 1 == text.count("Traceback")


class TestJson:
    def test_a_record_is_an_object_with_all_its_fields(self):
        line = json.loads(
            formatted(JsonFormatter(), "sold %d", 3, level=logging.WARNING, price=1.5, keys=("a",))
        )

        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
        assert {
            "level": "warning",
            "logger": "shop",
            "message": "sold 3",
            "price": 1.5,
            "keys": ["a"],
        } == line

    def test_an_exception_is_text(self):
        line = json.loads(formatted(JsonFormatter(), "failed", error=raised("x")))

        assert line["traceback"].endswith("ValueError: x")

    @pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
    def test_a_record_is_one_line_whatever_is_in_it(self, end):
        forged = FORGED.replace("\n", end)
        text = formatted(JsonFormatter(), forged, task=forged, error=raised(forged))

        assert [text] == text.splitlines()
        assert forged == json.loads(text)["message"] == json.loads(text)["task"]

    def test_a_field_cannot_pose_as_the_level_or_the_time(self):
        line = json.loads(
            formatted(JsonFormatter(), "sold", level=logging.ERROR, time="never", logger="other")
        )

        assert ("error", "shop") == (line["level"], line["logger"])
        assert "never" != line["time"]

    def test_a_field_that_has_no_json_form_is_text(self):
        endless = []
        endless.append(endless)
        lines = [
            json.loads(formatted(JsonFormatter(), "sold", thing=thing))
            for thing in (threading.current_thread(), endless, {("a", 1): 2}, "\ud800")
        ]

        assert "MainThread" in lines[0]["thing"]
        assert ["sold"] * 4 == [line["message"] for line in lines]

    @pytest.mark.parametrize("thing", [float("nan"), {"ratio": float("inf")}, Untold()])
    def test_a_field_that_no_reader_of_json_takes_spoils_neither_the_line_nor_the_others(self, thing):
        line = json.loads(
            formatted(JsonFormatter(), "sold", thing=thing, count=3), parse_constant=pytest.fail
        )

        assert isinstance(line["thing"], str)
        assert ("sold", 3) == (line["message"], line["count"])


@pytest.mark.parametrize("formatter", [TextFormatter, JsonFormatter])
class TestManyAtOnce:
    """Done jobs are written without a record for each, if nothing else looks at records."""

    def output(self, tmp_path, logger, formatter, *others):
        stream = io.StringIO()
        logger.handlers[:] = [JobStream(stream, formatter()), *others]
        with App(tmp_path / f"{len(others)}.db") as app:

            @app.task(name="shop.sell")
            def sell() -> int:
                logging.getLogger("shop").info("selling")
                return current_job().attempt

            for _ in range(3):
                sell.enqueue()
            app.work(until_idle=True, name="w")
        return stream.getvalue()

    def test_they_read_as_if_each_had_a_record(self, tmp_path, logger, formatter, monkeypatch):
        records = []
        listener = logging.Handler()
        listener.emit = records.append
        made = self.output(tmp_path, logger, formatter, listener)
        direct = self.output(tmp_path, logger, formatter)

        assert 3 == sum(record.name == "penstock.jobs" for record in records)
        assert shapes(made) == shapes(direct)

    def test_a_filter_or_a_record_factory_sees_a_record_of_each(
        self, tmp_path, logger, formatter, monkeypatch
    ):
        seen = []
        monkeypatch.setattr(
            logging.getLogger("penstock.jobs"), "filters", [lambda record: seen.append(record) or True]
        )
        self.output(tmp_path, logger, formatter)

        assert 3 == len(seen)

        monkeypatch.undo()
        logging.setLogRecordFactory(
            lambda *args, **kwargs: seen.append(args) or logging.LogRecord(*args, **kwargs)
        )
        try:
            self.output(tmp_path / "..", logger, formatter)
        finally:
            logging.setLogRecordFactory(logging.LogRecord)

        assert 6 <= len(seen)

    def test_a_stream_that_is_closed_keeps_no_job_from_ending(
        self, tmp_path, logger, formatter, monkeypatch, capsys
    ):
        stream = io.StringIO()
        stream.close()
        logger.handlers[:] = [JobStream(stream, formatter())]
        with App(tmp_path / "jobs.db") as app:
            job = app.task(name="shop.sell")(lambda: 1).enqueue()
            app.work(until_idle=True)

            assert 1 == job.result(timeout=0)
        assert "closed file" in capsys.readouterr().err


def shapes(text):
    """Return the lines of *text* without what differs from run to run, in any order."""
    found = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    found = re.sub(r"\d+(\.\d+)?(e-\d+)?( ms| s)?", "N", found)
    return sorted(re.sub(r"worker .*", "worker", line) for line in found.splitlines())


def test_job_fields_let_everything_through():
    record = logging.makeLogRecord({})

    assert JobFields().filter(record)
    assert not hasattr(record, "job_id")


def test_the_command_writes_to_standard_error_at_the_level_it_is_told(logger, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    log_to_stderr("WARNING", as_json=True)
    logging.getLogger("shop").info("little")
    logging.getLogger("shop").warning("much")

    assert "much" == json.loads(stream.getvalue())["message"]
