"""Real servers for the tests: each on the loopback, with a directory of its own, and stopped whatever happens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 180  # seconds for a busy machine
OPENED = ("java.lang", "java.net", "java.util", "sun.nio.ch", "sun.net.dns")  # to old Java programs


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def serving(
    command: Sequence[str], home: Path, ready: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; it ends with this process, even when that is killed."""
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            cwd=home,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + PATIENCE
        while not ready():
            assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-3000:]}"
            assert time.monotonic() < until, f"{command[0]} is not ready: {log.read_text()[-3000:]}"
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def java(jars: Path | str, main: str, properties: Mapping[str, str], *arguments: str) -> list[str]:
    """Write the command of a Java program, in the Java that Spark uses."""
    from dpspark.spark.java import ensure_java

    ensure_java()
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    set_to = [f"-D{name}={value}" for name, value in properties.items()]
    program = os.path.join(os.environ["JAVA_HOME"], "bin", "java")
    return [program, "-Xmx512m", "-XX:+UseSerialGC", *opened, *set_to, "-cp", str(jars), main, *arguments]


def write_site(directory: Path, name: str, properties: Mapping[str, str]) -> None:
    """Write settings as Hadoop's programs find them on their class path."""
    listed = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f'<?xml version="1.0"?><configuration>{listed}</configuration>')


@contextmanager
def hive_metastore(home: Path, jars: Sequence[str], settings: Mapping[str, str]) -> Iterator[str]:
    """The address of a Hive metastore of Spark's own jars, over Thrift, with a Derby database.

    It looks after the directories of tables, and so needs the jars and settings of stores, too.
    """
    import pyspark

    port = free_port()
    write_site(home / "conf", "core-site.xml", settings)
    properties = {
        "hive.async.log.enabled": "false",
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.warehouse.dir": str(home / "warehouse"),
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
        "derby.stream.error.file": str(home / "derby.log"),
    }
    main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    path = ":".join([str(home / "conf"), f"{Path(pyspark.__file__).parent}/jars/*", *jars])
    command = java(path, main, properties, "-p", str(port))
    with serving(command, home, lambda: is_open(port)):
        yield f"thrift://127.0.0.1:{port}"


@contextmanager
def rclone_store(home: Path) -> Iterator[str]:
    """The host and port of an S3 server that is not moto: rclone's, over a directory, whose folders are its buckets."""
    port, program = free_port(), shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    assert program is not None, "rclone is not here: run `make test-lake`"
    keys = f"{os.environ['AWS_ACCESS_KEY_ID']},{os.environ['AWS_SECRET_ACCESS_KEY']}"
    (home / "files").mkdir()
    command = [program, "serve", "s3", "--auth-key", keys, "--addr", f"127.0.0.1:{port}", str(home / "files")]
    with serving(command, home, lambda: is_open(port), {"RCLONE_CONFIG": str(home / "rclone.conf")}):
        yield f"127.0.0.1:{port}"


@contextmanager
def hdfs(home: Path) -> Iterator[str]:
    """The address of an HDFS with one DataNode, of the jars that an old pyspark brings."""
    jars = Path(sys.prefix) / "hadoop" / "pyspark" / "jars"
    assert jars.is_dir(), "Hadoop is not here: run `make test-lake`"
    name, web, data, data_web, calls = (f"127.0.0.1:{free_port()}" for _ in range(5))
    conf = home / "conf"
    write_site(conf, "core-site.xml", {"fs.defaultFS": f"hdfs://{name}", "hadoop.tmp.dir": str(home / "tmp")})
    places = {"dfs.namenode.name.dir": str(home / "names"), "dfs.datanode.data.dir": str(home / "blocks")}
    listens = {"dfs.namenode.http-address": web, "dfs.datanode.address": data}
    listens |= {"dfs.datanode.http.address": data_web, "dfs.datanode.ipc.address": calls}
    switched = {"dfs.replication": "1", "dfs.webhdfs.enabled": "false", "dfs.namenode.safemode.extension": "0"}
    write_site(conf, "hdfs-site.xml", {**places, **listens, **switched})
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
    )
    for pages in ("hdfs", "datanode"):  # which the jars leave out, and the servers ask for
        (conf / "webapps" / pages / "WEB-INF").mkdir(parents=True)
        (conf / "webapps" / pages / "WEB-INF" / "web.xml").write_text("<web-app/>")
    server = "org.apache.hadoop.hdfs.server"
    both = {kind: home / kind for kind in ("namenode", "datanode")}
    for directory in both.values():
        directory.mkdir()

    def command(kind: str, *arguments: str) -> list[str]:
        return java(f"{conf}:{jars}/*", f"{server}.{kind.lower()}.{kind}", {}, *arguments)

    subprocess.run(
        command("NameNode", "-format", "-nonInteractive"), cwd=home, check=True, capture_output=True, timeout=PATIENCE
    )
    with (
        serving(command("NameNode"), both["namenode"], lambda: is_open(int(name.rpartition(":")[2]))),
        serving(command("DataNode"), both["datanode"], lambda: "successfully registered" in _log(both["datanode"])),
    ):
        yield f"hdfs://{name}"


def _log(home: Path) -> str:
    return (home / "server.log").read_text(errors="replace")
