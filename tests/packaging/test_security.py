"""What SECURITY promises of confs, places, secrets and permissions: each promise with a test."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
import yaml
from pydantic import BaseModel

from dpspark.bundle.staging import publish, stage, staging_path
from dpspark.errors import ConfError, DpsparkError, OutputError, without_passwords
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import release
from dpspark.spec.conf_file import LARGEST_CONF, read_conf
from dpspark.spec.spec import Spec, load_spec
from tests.commands import run as run_command
from tests.manifests import conf_of, manifest_of

PASSWORD = "hunter2-hunter2"
URL = f"postgresql+psycopg://steward:{PASSWORD}@127.0.0.1:1/books"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code, out, err = run_command(capsys, *arguments)
    return code, out + err


def saved(tmp_path: Path, conf: dict[str, Any]) -> str:
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    return str(tmp_path / "conf.yaml")


def granted(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=10.0, delta=1e-3)
    return url


# Places


NAMES = [
    *("..", ".", "../x", "a/b", "/abs", "a\0b", "a\\b", ".hidden", "-x", "a b", "", "~", "a\n"),
    *("é\u0301", "ａ", "ﬁ", "a\u202eb", "\ud800", "漢" * 99, "x" * 101),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["release/name", "release/version", "ledger/dataset"])
def test_names_are_plain(key: str, name: str) -> None:
    with pytest.raises(ConfError):
        load_spec(conf_of({key: name}))


@pytest.mark.parametrize("path", ["..", "../releases", "a/../../b", "/tmp/../etc", "a\0b", "", "\ud800"])
def test_an_output_path_goes_down(path: str) -> None:
    with pytest.raises(ConfError):
        load_spec(conf_of({"output": {"path": path}}))


@pytest.mark.parametrize("link", ["income", "income/1", ".staging"])
@pytest.mark.parametrize("inside", [False, True])
def test_links_in_the_output_root_are_not_followed(tmp_path: Path, link: str, inside: bool) -> None:
    """Kills the mutant that joins paths: refused before anything is reserved, read or written there."""
    output = tmp_path / "releases"
    target = output / "other" if inside else tmp_path / "outside"
    target.mkdir(parents=True)
    (output / link).parent.mkdir(parents=True, exist_ok=True)
    (output / link).symlink_to(target)
    url = granted(tmp_path)
    conf = conf_of({"source/parquet": str(tmp_path), "ledger/url": url, "output": {"path": str(output)}})
    with pytest.raises(OutputError, match="is a link to elsewhere"):
        release(conf)
    assert Ledger(url).find("people", "income", "1") is None
    assert os.listdir(target) == []


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "releases").symlink_to(tmp_path / "disk")
    conf = conf_of(
        {
            "source/parquet": str(tmp_path / "none"),
            "ledger/url": granted(tmp_path),
            "output": {"path": str(tmp_path / "releases")},
        }
    )
    with pytest.raises(DpsparkError, match="no such file or directory"):  # of the source: the place was fine
        release(conf)


def test_staged_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Until published: kills the mutant that leaves modes to the umask."""
    before = os.umask(0)
    try:
        digest = stage(tmp_path, "id", {"second_moment": pa.table({"value": [1.0]})}, {"a": 1})
        staged = staging_path(tmp_path, "id", digest)
        modes = {name: stat.S_IMODE((staged / name).stat().st_mode) for name in os.listdir(staged)}
        assert modes == {"second_moment.parquet": 0o600, "manifest.json": 0o600}
        assert stat.S_IMODE(staged.stat().st_mode) == 0o700
        publish(staged, tmp_path / "a" / "1", digest)
    finally:
        os.umask(before)
    published = tmp_path / "a" / "1"
    assert stat.S_IMODE(published.stat().st_mode) == 0o755
    assert stat.S_IMODE((published / "manifest.json").stat().st_mode) == 0o644


# Secrets


def test_passwords_are_in_no_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = saved(tmp_path, conf_of({"ledger/url": URL, "output": {"path": str(tmp_path / "r")}}))
    commands: list[list[str]] = [
        ["ledger", "show", "--url", URL],
        ["ledger", "grant", "people", "--epsilon", "1", "--delta", "0", "--url", URL],
        ["ledger", "show", "--url", URL.replace("postgresql", "nonsense")],
        ["ledger", "show", "--url", f"sqlite:///x?password={PASSWORD}"],
        ["release", conf],
        ["release", conf, "--set", f"ledger={URL}"],
        ["release", conf, "--set", f"ledger.url=[{URL}"],
        ["release", conf, "--set", f"ledger.url={{a: {URL}}}"],
        ["release", conf, "--set", f"ledger.{URL}=1"],
        ["release", conf, "--set", f"output.path={URL}/.."],
        ["check", conf, "--set", f"ledger.url.a={URL}"],
    ]
    for command in commands:
        code, said = run(capsys, *command)
        assert code != 0, command
        assert PASSWORD not in said, command
        code, said = run(capsys, *command, "--debug")
        assert PASSWORD not in said, command
    assert PASSWORD not in run(capsys, "check", conf)[1]


@pytest.mark.parametrize(
    "url",
    [
        f"sqlite+pysqlcipher://:{PASSWORD}@/x.db",
        "sqlite+aiosqlite:///x.db",
        "sqlite:///x.db?timeout=abc",
        "sqlite:///x\0.db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/d?host=a&host=b&port=1",
    ],
)
def test_urls_that_no_driver_takes(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a traceback once: of SQLAlchemy's own errors, or of a package that is not there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DpsparkError) as caught:
        Ledger(url)
    assert PASSWORD not in str(caught.value)


def test_passwords_are_in_no_manifest() -> None:
    assert PASSWORD not in str(manifest_of({"ledger/url": URL}))
    assert "127.0.0.1" not in str(manifest_of({"ledger/url": URL}))
    assert load_spec(conf_of({"ledger/url": URL})).hash == load_spec(conf_of({})).hash


@pytest.mark.parametrize(
    "text",
    [
        f"ledger postgresql://u:{PASSWORD}@h/d: no",
        f"postgresql://u:a@{PASSWORD}@h/d and x://u:{PASSWORD}@y",
        f"mysql://h/d?password={PASSWORD}&x=1",
        f"'a://:{PASSWORD}@h'",
        f"PWD={PASSWORD}",
        f"s3://{PASSWORD}@bucket/key and s3://key:{PASSWORD}@bucket",
        f"s3://b/k?secret_key={PASSWORD}&access_key={PASSWORD}&session_token={PASSWORD}",
        f"AWS_SECRET_ACCESS_KEY={PASSWORD} AccountKey={PASSWORD}",
        f"https://a.blob/c?sv=1&sig={PASSWORD}",
        f"sc://host:443/;use_ssl=true;token={PASSWORD}",
        f"remote 'sc://host/;x-authorization={PASSWORD};user_id=me' failed",
        f"sc://host;token={PASSWORD}",
        f"https://host/?a=b&token={PASSWORD}",
    ],
)
def test_without_passwords(text: str) -> None:
    assert PASSWORD not in without_passwords(text)
    assert PASSWORD not in str(ConfError(text))
    assert without_passwords("sqlite:////home/a@b/ledger.db") == "sqlite:////home/a@b/ledger.db"
    assert without_passwords("at sc://host:15002, or") == "at sc://host:15002, or"


def models(of: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    """A model and every one that a field of it can hold."""
    if isinstance(of, type) and issubclass(of, BaseModel):
        if of in seen:
            return
        seen.add(of)
        yield of
        for field in of.model_fields.values():
            yield from models(field.annotation, seen)
    for part in get_args(of):
        yield from models(part, seen)


def test_a_conf_cannot_name_a_seed() -> None:
    """No key of any part is called like one, and every part refuses keys that it does not have."""
    found = list(models(Spec, set()))
    assert len(found) >= 10
    for model in found:
        assert model.model_config.get("extra") == "forbid", model
        assert model.model_config.get("frozen") is True, model
        for field in model.model_fields:
            assert not any(word in field for word in ("seed", "random", "secret", "rng", "noise")), (model, field)


@pytest.mark.parametrize(
    "part", ["", "source/", "privacy/", "release/", "mechanism/", "ledger/", "output/", "columns/age/"]
)
@pytest.mark.parametrize("key", ["seed", "random_state", "noise", "secret"])
def test_a_seed_is_refused_everywhere(part: str, key: str) -> None:
    with pytest.raises(ConfError, match=f"{key}: unknown key"):
        load_spec(conf_of({f"{part}{key}": 7}))


# The operator's query


QUERY = "SELECT age, income, sex FROM people WHERE name <> 'Quetzalcoatl'"


def test_a_query_is_known_by_its_hash() -> None:
    one, other = (conf_of({"source": {"sql": sql}}) for sql in (QUERY, QUERY.replace("<>", "=")))
    assert load_spec(one).hash != load_spec(other).hash
    manifest = manifest_of({"source": {"sql": QUERY}})
    assert "Quetzalcoatl" not in str(manifest)
    assert set(manifest["spec"]["source"]) == {"sql_sha256"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELEC 'Quetzalcoatl'",
        "SELECT 'Quetzalcoatl",
        "SELECT 'Quetzalcoatl'; SELECT 1",
        "DROP TABLE Quetzalcoatl",
        "SELECT rand() FROM a WHERE b = 'Quetzalcoatl'",
        "SELECT max(x) FROM a WHERE b = 'Quetzalcoatl'",
        "(" * 3000 + "'Quetzalcoatl'",
    ],
)
def test_a_query_is_in_no_message(tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str) -> None:
    conf = saved(tmp_path, conf_of({"source": {"sql": sql}}))
    for more in ([], ["--set", f"source.sql.x={sql}"], ["--set", f"source={{sql: {sql!r}, x: 1}}"]):
        code, said = run(capsys, "check", conf, *more)
        assert code == 2, said
        assert "Quetzalcoatl" not in said


# YAML


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.mkdir [{marker}]",
        "a: !!python/object/new:os.mkdir [{marker}]",
        "a: !!python/name:os.system",
        "a: !!binary aGk=",
        "a: !!timestamp 2026-11-01",
        "a: !!set {{x}}",
        "? [a]\n: 1",
        "a: 1\na: 2",
        "b: {{a: 1, a: 2}}",
        "a: !!bool 7",
        "a: !!float ''",
        "a: *b",
        'a: "\\0"',
        'a: "\\ud800"',
        "a: &a [*a]",
        "a: " + "[" * 2000,
        "a: " + "{{b: " * 60 + "1" + "}}" * 60,
        "{{" * 2000,
        "- " * 2000 + "1",
        "a: " + "9" * 5000,
    ],
    ids=lambda text: text[:24],
)
def test_yaml_makes_plain_values_or_nothing(tmp_path: Path, text: str) -> None:
    path, marker = tmp_path / "conf.yaml", tmp_path / "ran"
    path.write_text(text.format(marker=marker))
    with pytest.raises(ConfError) as caught:
        read_conf(path)
    assert len(str(caught.value)) < 500
    assert not marker.exists()


def test_aliases_cannot_make_much_of_little(tmp_path: Path) -> None:
    """Ten lists of ten of the one before are 10¹⁰ values: refused in seconds. Kills the mutant without a count."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (tmp_path / "conf.yaml").write_text("\n".join(lines))
    start = time.perf_counter()
    with pytest.raises(ConfError, match="too many of them"):
        read_conf(tmp_path / "conf.yaml")
    assert time.perf_counter() - start < 30


def test_huge_confs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "conf.yaml").write_bytes(b"#" * (LARGEST_CONF + 1))
    with pytest.raises(ConfError, match="larger than 16 MB"):
        read_conf(tmp_path / "conf.yaml")
    with pytest.raises(ConfError):
        read_conf("/dev/zero")
