"""Files of tokens."""

import os
import stat
import threading
from types import SimpleNamespace

import pytest

from penstock.cli.worker import read_token
from penstock.errors import InvalidError
from penstock.http import tokens
from penstock.http.tokens import Keyring

TOKEN = "acme-token-0123456789"
ROOT, USER = 0, 1000


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"# ours\n\n{TOKEN} roles=worker name=hand\n")
    return file


def read(file):
    """Read *file* as a server does, then as a worker does."""
    keyring = Keyring()
    keyring.read(file)
    return keyring.access(f"Bearer {TOKEN}").name, read_token(file)


@pytest.fixture
def owned(monkeypatch):
    """Let every file that is open seem to be of some owner and mode."""

    def set_to(owner, mode):
        found = SimpleNamespace(st_uid=owner, st_mode=stat.S_IFREG | mode)
        monkeypatch.setattr(tokens, "os", SimpleNamespace(fstat=lambda _: found, name="posix"))

    return set_to


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_that_is_its_owners_alone_is_read(file, mode):
    file.chmod(mode)

    assert ("hand", TOKEN) == read(file)


@pytest.mark.parametrize("reader", [Keyring().read, read_token], ids=["server", "worker"])
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602, 0o660])
def test_a_file_that_others_can_read_or_write_is_refused(file, mode, reader):
    file.chmod(mode)

    with pytest.raises(InvalidError) as caught:
        reader(file)

    assert "--token-file" == caught.value.field
    assert f"mode is {mode:04o}" in str(caught.value)
    assert f"chmod 600 {file}" in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("owner", "mode", "well"),
    [
        (ROOT, 0o440, True),
        (ROOT, 0o640, True),
        (ROOT, 0o444, False),
        (ROOT, 0o660, False),
        (USER, 0o440, False),
        (USER, 0o400, True),
    ],
)
def test_only_a_file_of_root_may_be_readable_by_its_group(file, owned, owner, mode, well):
    owned(owner, mode)

    if well:
        assert ("hand", TOKEN) == read(file)
    else:
        with pytest.raises(InvalidError, match="others can use"):
            read(file)


def test_a_pipe_is_read_whatever_its_mode(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    writer = threading.Thread(target=pipe.write_text, args=(f"{TOKEN}\n",))
    writer.start()

    assert TOKEN == read_token(pipe)
    writer.join()


def test_a_file_without_a_token_and_one_that_is_not_there_are_named(tmp_path, file):
    file.write_text("# none\n")

    with pytest.raises(InvalidError, match="holds no token"):
        read_token(file)
    with pytest.raises(InvalidError, match="missing cannot be read"):
        read_token(tmp_path / "missing")


def test_a_line_that_is_wrong_is_named(file):
    file.write_text(f"# ours\n{TOKEN} rules=worker\n")

    with pytest.raises(InvalidError, match="line 2: 'rules=worker' is not known"):
        read(file)


@pytest.mark.parametrize(
    ("written", "tenant"),
    [("acme", "acme"), ("acme%20inc", "acme inc"), ("%C3%A9%7C%40%25", "é|@%"), ("a/b+c=d", "a/b+c=d")],
)
def test_a_tenant_may_have_any_name_percent_encoded_where_a_line_cannot_hold_it(file, written, tenant):
    file.write_text(f"{TOKEN} tenant={written}\n")
    keyring = Keyring()
    keyring.read(file)

    assert tenant == keyring.access(f"Bearer {TOKEN}").tenant


@pytest.mark.parametrize("written", ["", "%0A", "%FF", "é", "x" * 1025])
def test_what_names_no_tenant_is_refused(file, written):
    file.write_text(f"{TOKEN} tenant={written}\n")

    with pytest.raises(InvalidError, match=r"line 1: "):
        Keyring().read(file)
