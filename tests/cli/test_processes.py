"""The programs as they are started: what stands in their way is one line, never a traceback."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing

import pytest

from service.store.engine import make_engine
from service.store.migrate import migrate
from tests.cli.given import program, steward
from tests.ports import free_port


@pytest.fixture
def database(tmp_path):
    """The address of a migrated database."""
    address = f"sqlite:///{tmp_path}/steward.db"
    engine = make_engine(address)
    migrate(engine)
    engine.dispose()
    return address


def ended(*arguments: str, folder, **environment: str) -> tuple[int, str, str]:
    with program(*arguments, folder=folder, **environment) as process:
        out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.mark.deep
@pytest.mark.parametrize(
    ("command", "environment", "code", "line"),
    [
        ("serve", {}, 1, "the database has no tables yet; run: tpu-steward migrate"),
        (
            "serve",
            {"STEWARD_DATABASE_URL": "sqlite:///a-file/steward.db"},
            1,
            "the database's folder a-file cannot be made: File exists",
        ),
        (
            "serve",
            {"STEWARD_DATABASE_URL": "sqlite:///a-file"},
            1,
            (
                "the database file is damaged, or is no SQLite database; restore a backup,"
                " or name another file"
            ),
        ),
    ],
)
def test_what_cannot_start_says_why_in_one_line(
    tmp_path, command: str, environment: Mapping[str, str], code: int, line: str
):
    (tmp_path / "a-file").write_text("not a database, but long enough to be taken for one" * 9)
    assert ended(command, folder=tmp_path, **environment) == (code, "", f"{line}\n")


@pytest.mark.parametrize(
    ("command", "environment", "code", "line"),
    [
        (
            "serve",
            {"STEWARD_PORT": "70000"},
            2,
            "STEWARD_PORT: input should be less than or equal to 65535; it is '70000'",
        ),
        (
            "serve",
            {"STEWARD_HOST": "0.0.0.0"},
            2,
            (
                "STEWARD_HOST is 0.0.0.0, which others can reach: set STEWARD_ADMIN_TOKEN too, or"
                " listen on 127.0.0.1"
            ),
        ),
        (
            "daemon",
            {},
            2,
            (
                "STEWARD_PROJECTS: no project is set; set it to the ids of the projects, separated"
                " by commas"
            ),
        ),
        (
            "daemon",
            {"STEWARD_PROJECTS": "lab", "STEWARD_EMULATOR": "127.0.0.1:1"},
            1,
            (
                "nothing answers at 127.0.0.1:1 (STEWARD_EMULATOR);"
                " start it with: tpu-steward emulator"
            ),
        ),
        (
            "dev",
            {"STEWARD_EMULATOR": "127.0.0.1:9470", "STEWARD_EMULATOR_REST": "127.0.0.2:9471"},
            2,
            (
                "STEWARD_EMULATOR and STEWARD_EMULATOR_REST name different hosts;"
                " dev starts one emulator, on one host"
            ),
        ),
    ],
)
def test_settings_that_make_no_sense_are_one_line(
    command: str, environment: Mapping[str, str], code: int, line: str
):
    result = steward(command, **environment)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"{line}\n")


@pytest.mark.deep
def test_a_locked_database_is_one_line(tmp_path, database):
    with closing(sqlite3.connect(tmp_path / "steward.db", isolation_level=None)) as other:
        other.execute("pragma journal_mode=delete")
        other.execute("begin exclusive")
        address = f"{database}?timeout=0.1"
        result = ended("serve", folder=tmp_path, STEWARD_DATABASE_URL=address)
    assert result == (1, "", "the database is locked by another program; retry\n")


@pytest.mark.deep
@pytest.mark.parametrize("command", ["serve", "daemon"])
def test_a_database_that_can_only_be_read_is_one_line(tmp_path, database, command):
    address = f"sqlite:///file:{tmp_path}/steward.db?mode=ro&uri=true"
    code, out, err = ended(
        command, folder=tmp_path, STEWARD_DATABASE_URL=address, STEWARD_PROJECTS="lab"
    )
    advice = "the database is read-only; check the permissions of its file and folder\n"
    assert (code, out, err) == (1, "", advice)
    assert not (tmp_path / "file:").exists()


@pytest.mark.deep
def test_a_database_of_a_newer_program_is_left_alone(tmp_path, database):
    with closing(sqlite3.connect(tmp_path / "steward.db")) as newer:
        newer.execute("update alembic_version set version_num = '9999'")
        newer.commit()
    code, _, line = ended("migrate", folder=tmp_path, STEWARD_DATABASE_URL=database)
    assert code == 1
    assert line.startswith("the database is newer than this program")
    assert line.count("\n") == 1


@pytest.mark.deep
def test_migrating_says_what_was_done(tmp_path):
    shown = "sqlite:///var/steward.db"
    assert ended("migrate", folder=tmp_path) == (0, f"{shown} is up to date now\n", "")
    assert ended("migrate", folder=tmp_path) == (0, f"{shown} has all its tables already\n", "")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("setting", "command"),
    [("STEWARD_PORT", ["serve"]), ("STEWARD_PORT", ["dev"]), ("STEWARD_EMULATOR", ["dev"])],
)
def test_a_taken_port_is_one_line_that_names_the_setting(tmp_path, database, setting, command):
    with ExitStack() as taken:
        listener = taken.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        value = str(port) if setting == "STEWARD_PORT" else f"127.0.0.1:{port}"
        environment = {
            "STEWARD_PORT": "0",
            "STEWARD_EMULATOR": "127.0.0.1:0",
            "STEWARD_EMULATOR_REST": "127.0.0.1:0",
            "STEWARD_DATABASE_URL": database,
            setting: value,
        }
        code, out, line = ended(*command, folder=tmp_path, **environment)
    assert (code, out) == (1, "")
    assert line.startswith(f"port {port} on 127.0.0.1 is taken ({setting})")
    assert line.count("\n") == 1


@pytest.mark.deep
def test_the_emulator_names_the_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = ("--grpc-port", port, "--rest-port", str(free_port()))
        code, out, line = ended("emulator", *ports, folder=tmp_path)
    assert (code, out) == (1, "")
    assert line.startswith(f"cannot listen on 127.0.0.1:{port}")
    assert line.endswith("choose another with --grpc-port\n")
