"""What docs/deploy.md and docs/schedule.md hand out: scripts that run, templates and a DAG that name what exists."""

from __future__ import annotations

import ast
import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from dpspark.spark.executor_zip import write_zip
from dpspark.spec.conf_file import override
from dpspark.spec.spec import load_spec
from dpspark.version import __version__

ROOT = Path(__file__).parents[2]
GUIDE = "".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("deploy", "schedule"))
DAG = (ROOT / "conf/airflow/dpspark_monthly.py").read_text(encoding="utf-8")
POD = {role: yaml.safe_load((ROOT / f"conf/kubernetes/{role}.yaml").read_text()) for role in ("driver", "executor")}
DOCKERFILE = (ROOT / "conf/kubernetes/Dockerfile").read_text(encoding="utf-8")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def retry(*command: str, tries: int = 4, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"DPSPARK_TRIES": str(tries), "DPSPARK_WAIT": "0", **environment}
    return subprocess.run(
        [str(ROOT / "conf/retry.sh"), *command], capture_output=True, text=True, env={**os.environ, **settings}
    )


def counting(tmp_path: Path, ends: str) -> str:
    """A command that writes down its arguments, then ends as `ends` says; $n is the number of the try."""
    return script(tmp_path / "command", f'echo "$*" >> {tmp_path}/calls\nn=$(wc -l < {tmp_path}/calls)\n{ends}')


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def test_a_failing_release_is_tried_until_it_is_done(tmp_path: Path) -> None:
    """Kills: a loop that stops at a kill -9, or that changes the command from one try to the next."""
    command = counting(tmp_path, "[ $n = 1 ] && exit 1\n[ $n = 2 ] && kill -9 $$\nexit 0")
    done = retry(command, "release", "a conf.yaml", "--set", "release.version=2026-11")
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == ["release a conf.yaml --set release.version=2026-11"] * 3
    assert "exit code 137; try 3 of 4" in done.stderr


@pytest.mark.parametrize("code", [2, 3])
def test_a_refusal_is_not_tried_again(tmp_path: Path, code: int) -> None:
    assert retry(counting(tmp_path, f"exit {code}")).returncode == code
    assert len(calls(tmp_path)) == 1


def test_a_store_that_did_not_answer_is_asked_again(tmp_path: Path) -> None:
    """Kills: a month that is lost to one failed read, which ends with 4."""
    assert retry(counting(tmp_path, "[ $n = 1 ] && exit 4\nexit 0")).returncode == 0
    assert len(calls(tmp_path)) == 2


@pytest.mark.parametrize("setting", ["DPSPARK_TRIES", "DPSPARK_WAIT"])
def test_a_setting_that_is_no_number(tmp_path: Path, setting: str) -> None:
    """Kills: a loop without end, or without a pause."""
    assert retry(counting(tmp_path, "exit 1"), **{setting: "ten"}).returncode == 2
    assert not (tmp_path / "calls").exists()


def test_half_a_month_is_not_released(tmp_path: Path) -> None:
    """Kills: a month published for good while it is still being written."""
    counting(tmp_path, "exit 0")
    (tmp_path / "command").rename(tmp_path / "dpspark")
    (tmp_path / "people" / "month=2026-03").mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DPSPARK_WAIT": "0", "DPSPARK_TRIES": "2"}
    command = [str(ROOT / "conf/monthly.sh"), "monthly.yaml", str(tmp_path / "people"), "2026-03"]
    assert subprocess.run(command, env=environment).returncode == 4
    assert not (tmp_path / "calls").exists()


def monthly(tmp_path: Path, directory: str, month: str, *complete: str) -> subprocess.CompletedProcess[str]:
    """The script in a directory of its own, beside a `dpspark` that writes down its arguments."""
    counting(tmp_path, "exit 0")
    (tmp_path / "command").rename(tmp_path / "dpspark")
    for place in complete:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "_SUCCESS").touch()
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DPSPARK_WAIT": "0", "DPSPARK_TRIES": "1"}
    command = [str(ROOT / "conf/monthly.sh"), "monthly.yaml", directory, month]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)


@pytest.mark.parametrize(
    ("directory", "month", "place"),
    [
        ("people", "2026-11", "people/month=2026-11"),
        ("people", "2026-11-r2", "people/month=2026-11-r2"),
        ("people", "2026-11", "people/year=2026/month=11"),
        ("people", "2026-01", "people/year=2026/month=1"),
        ("people", "2026-01", "people/year=2026/month=01"),
        ("the people", "2026-12", "the people/year=2026/month=12"),
        ("people/y={year}/m={month1}", "2026-02", "people/y=2026/m=2"),
    ],
)
def test_both_layouts_of_a_month(tmp_path: Path, directory: str, month: str, place: str) -> None:
    """Fails on 0.2.0: year=2026/month=11 was never found. Other months are there too."""
    others = [other for other in ("people/month=2026-10", "people/year=2025/month=11") if other != place]
    done = monthly(tmp_path, directory, month, place, *others)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == [f"release monthly.yaml --set release.version={month} --set source.parquet={place}"]


@pytest.mark.parametrize(
    ("directory", "place"),
    [
        ("s3a://data/people", "s3a://data/people/month=2026-02"),
        ("s3a://data/people/year={year}/month={month}", "s3a://data/people/year=2026/month=02"),
        ("s3a://data/people/year={year}/month={month1}", "s3a://data/people/year=2026/month=2"),
    ],
)
def test_a_store_is_told_its_layout(tmp_path: Path, directory: str, place: str) -> None:
    assert monthly(tmp_path, directory, "2026-02").returncode == 0
    assert calls(tmp_path) == [f"release monthly.yaml --set release.version=2026-02 --set source.parquet={place}"]


NO_MONTHS = ("2026-1", "2026-13", "2026-00", "2026-1-r2", "2026-111")  # 0.2.0 waited for these, or released them


@pytest.mark.parametrize(
    ("directory", "month", "complete", "code"),
    [
        ("people", "2026-01", ["people/month=2026-01", "people/year=2026/month=1"], 2),  # which?
        ("people", "2026-01", ["people/year=2026/month=1", "people/year=2026/month=01"], 2),
        ("people", "2026-01", ["people/year=2026/month=11"], 4),  # not there yet
        ("people/year={jahr}", "2026-01", [], 2),
        ("people/year={year}", "2026-13", [], 2),
        *(("people", month, [f"people/month={month}"], 2) for month in NO_MONTHS),
    ],
)
def test_a_month_that_is_not_clear_is_not_released(
    tmp_path: Path, directory: str, month: str, complete: list[str], code: int
) -> None:
    """Kills: half of a month, or one of two, published for good."""
    done = monthly(tmp_path, directory, month, *complete)
    assert done.returncode == code, done.stderr
    assert not (tmp_path / "calls").exists()
    assert len(done.stderr.splitlines()) <= 2


def test_what_is_waited_for_is_named(tmp_path: Path) -> None:
    """Fails on 0.2.0: "exit code 1; try 2 of 10" was all."""
    (tmp_path / "people" / "month=2026-01").mkdir(parents=True)
    told = monthly(tmp_path, "people", "2026-01").stderr
    none = "/_SUCCESS (no such directory)"
    places = f"people/year=2026/month=01{none} or people/year=2026/month=1{none}"
    assert told.startswith(f"monthly.sh: waiting for people/month=2026-01/_SUCCESS or {places}\n")
    done = monthly(tmp_path, "poeple/{year}-{month}", "2026-01")
    assert done.returncode == 4
    assert done.stderr.startswith(f"monthly.sh: waiting for poeple/2026-01{none}\n")


def test_it_gives_up_with_the_last_exit_code(tmp_path: Path) -> None:
    assert retry(counting(tmp_path, "exit 1"), tries=3).returncode == 1
    assert len(calls(tmp_path)) == 3
    assert retry(str(tmp_path / "no-such-command")).returncode == 127
    assert retry().returncode == 2


def test_a_stop_reaches_the_command_and_ends_the_loop(tmp_path: Path) -> None:
    """Kills: a loop that outlives its scheduler's SIGTERM, or that starts the stopped release again."""
    ends = f"trap 'touch {tmp_path}/told; exit 1' TERM\ntouch {tmp_path}/started\nwhile :; do sleep 0.05; done"
    command = counting(tmp_path, ends)
    running = subprocess.Popen([str(ROOT / "conf/retry.sh"), command], env={**os.environ, "DPSPARK_WAIT": "0"})
    try:
        while not (tmp_path / "started").exists():
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 143
    finally:
        running.kill()
    assert (tmp_path / "told").exists()
    assert len(calls(tmp_path)) == 1


def test_a_real_refusal(conf: dict[str, Any], tmp_path: Path) -> None:
    """The product's own exit code, through the script for cron: no grant, so no Spark."""
    conf["ledger"]["dataset"] = "nobody"
    (tmp_path / "monthly.yaml").write_text(yaml.safe_dump(conf))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    month = tmp_path / "people" / "month=2026-11"
    month.mkdir(parents=True)
    shutil.copy(conf["source"]["parquet"], month)
    (month / "_SUCCESS").touch()
    done = subprocess.run(
        [str(ROOT / "conf/monthly.sh"), str(tmp_path / "monthly.yaml"), str(tmp_path / "people"), "2026-11"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "DPSPARK_WAIT": "0"},
    )
    assert done.returncode == 3, done.stderr
    assert "dpspark ledger grant" in done.stderr
    assert "not tried again" in done.stderr


@pytest.mark.parametrize("given", [[], ["2026-03"]])
def test_the_month_of_a_run(tmp_path: Path, given: list[str]) -> None:
    """Kills: the month that has just begun; a version that is not the month of the data."""
    counting(tmp_path, "exit 0")
    (tmp_path / "command").rename(tmp_path / "dpspark")
    command = [str(ROOT / "conf/monthly.sh"), "monthly.yaml", "data/people", *given]
    over = {f"{day.replace(day=1) - timedelta(days=1):%Y-%m}" for day in (date.today(), date.today() + timedelta(1))}
    for month in (*given, *over):
        (tmp_path / f"data/people/month={month}").mkdir(parents=True)
        (tmp_path / f"data/people/month={month}/_SUCCESS").touch()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    version, source = re.fullmatch(  # type: ignore[union-attr]
        r"release monthly.yaml --set release.version=(\S+) --set source.parquet=data/people/month=(\S+)",
        calls(tmp_path)[0],
    ).groups()
    assert version == source
    assert version in (given or over)


# --- the DAG: its text alone, for Airflow is not among the requirements ---


def operators() -> dict[str, dict[str, ast.expr]]:
    """The keywords of each call, by the name of what is called."""
    tree = ast.parse(DAG)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return {node.func.id: {k.arg: k.value for k in node.keywords if k.arg} for node in found}  # type: ignore[union-attr]


def rendered(expression: ast.expr, month: str = "", correction: str = "") -> Any:
    """A value of the DAG as Airflow would hand it to spark-submit, for the run of November 2026."""
    constants = {
        node.targets[0].id: node.value
        for node in ast.parse(DAG).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    def text(node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return text(constants[node.id])
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        if isinstance(node, ast.JoinedStr):
            return "".join(text(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values)
        assert isinstance(node, ast.Constant)
        return str(node.value)

    known = {"data_interval_start": datetime(2026, 11, 2, 4), "params": {"month": month, "correction": correction}}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)  # whatever else it names is an error
    if isinstance(expression, ast.List):
        return [environment.from_string(text(item)).render(known) for item in expression.elts]
    return environment.from_string(text(expression)).render(known)


@pytest.mark.parametrize(
    ("params", "version", "month"),
    [
        ({}, "2026-11", "2026-11"),
        ({"month": "2026-03", "correction": "-r2"}, "2026-03-r2", "2026-03"),
    ],
)
def test_a_run_of_the_dag_asks_for_one_release(params: dict[str, str], version: str, month: str) -> None:
    """Kills: a version from the clock, the run id or the try number: each retry would be a new, charged release."""
    submit = operators()["SparkSubmitOperator"]
    conf, *options = rendered(submit["application_args"], **params)
    assert options[::2] == ["--set", "--set"]
    monthly = yaml.safe_load(re.search(r"```yaml\n(# monthly.yaml.*?)```", GUIDE, re.S)[1])  # type: ignore[index]
    assert Path(conf).name == "monthly.yaml"
    spec = load_spec(override(monthly, tuple(options[1::2])))
    assert spec.release.version == version
    assert spec.source is not None
    assert spec.source.parquet == f"/data/people/month={month}"
    assert version in rendered(operators()["BashOperator"]["bash_command"], **params)


def test_the_dag_spends_nothing_unasked() -> None:
    settings = operators()["DAG"]
    assert isinstance(settings["catchup"], ast.Constant)
    assert settings["catchup"].value is False
    assert "CronDataIntervalTimetable" in ast.unparse(settings["schedule"])
    submit = operators()["SparkSubmitOperator"]
    assert ast.unparse(submit["deploy_mode"]) == "'client'"
    for key in ("application", "properties_file"):
        assert (ROOT / rendered(submit[key]).removeprefix("/opt/dpspark/")).is_file()


# --- images and pods ---


def test_pods_mount_what_they_name_and_executors_no_more_than_the_data() -> None:
    """Kills: a ledger or the releases within reach of executors."""
    for pod in POD.values():
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (executor,) = POD["executor"]["spec"]["containers"]
    assert executor["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]
    assert "env" not in executor
    assert POD["executor"]["spec"]["automountServiceAccountToken"] is False


def test_the_images_are_made_of_what_exists(tmp_path: Path) -> None:
    copied = re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE, re.M)
    assert len(copied) == 4
    for source, _ in copied:
        if source.endswith(".zip"):
            assert write_zip(tmp_path / "dist").match(source)
        elif source.endswith(".whl"):  # as `make wheel` names it: tests/packaging/test_wheel.py
            assert Path(f"dist/dpspark-{__version__}-py3-none-any.whl").match(source)
        else:
            assert (ROOT / source).exists(), source
    assert set(re.findall(r"--target (\w+)", GUIDE)) == set(re.findall(r" AS (\w+)$", DOCKERFILE, re.M))
    for inside in re.findall(r"local:///opt/dpspark/(\S+)", GUIDE):
        assert inside == "dpspark.zip" or (ROOT / inside).is_file()


def test_executors_install_what_the_package_names() -> None:
    """Kills: limits for executors that differ from the driver's."""
    listed = {
        line for line in (ROOT / "conf/requirements-executors.txt").read_text().split() if re.match(r"\w+>=", line)
    }
    assert {re.split("[><]", line)[0] for line in listed} == {"numpy", "pyarrow"}
    for requirement in listed:
        assert f'"{requirement}"' in (ROOT / "setup.py").read_text(), requirement
    for requirement in listed:
        assert GUIDE.count(f"'{requirement}'") >= 2, requirement


def test_every_file_of_the_guide_exists() -> None:
    for name in set(re.findall(r"\b((?:conf|jobs)/[\w./-]+\w)", GUIDE)):
        assert (ROOT / name).exists(), name


OPERATED = yaml.safe_load((ROOT / "conf/kubernetes/sparkapplication.yaml").read_text())
# Fields of the operator's schema (kubeflow/spark-operator, api/v1beta2/sparkapplication_types.go) and their types: those
# that a recipe may use. What is of Kubernetes' own types is compared with the pod templates below.
POD_FIELDS: dict[str, Any] = {
    **{"cores": int, "memory": str, "image": str, "serviceAccount": str, "labels": dict, "env": list},
    **{"podSecurityContext": dict, "securityContext": dict, "volumeMounts": list, "template": dict},
}
RETRIES = {f"on{when}Failure{what}": int for when in ("", "Submission") for what in ("Retries", "RetryInterval")}
FIELDS: dict[str, Any] = {
    **{"type": "Python", "mode": "cluster", "pythonVersion": "3", "sparkVersion": str, "image": str},
    **{"imagePullPolicy": str, "mainApplicationFile": str, "arguments": list, "sparkConf": dict, "volumes": list},
    "deps": {"pyFiles": list},
    "restartPolicy": {"type": "OnFailure", **RETRIES},
    "driver": POD_FIELDS,
    "executor": {**POD_FIELDS, "instances": int},
}
REQUIRED = {"type", "sparkVersion", "mainApplicationFile", "driver", "executor"}


def unlike_schema(content: dict[str, Any], fields: dict[str, Any], path: str) -> list[str]:
    """List the fields that the schema does not have, or not with such a value: the API server refuses or drops them."""
    wrong = []
    for key, value in content.items():
        expected, here = fields.get(key), f"{path}.{key}"
        if expected is None:
            wrong.append(here)
        elif isinstance(expected, dict):
            wrong += unlike_schema(value, expected, here)
        elif isinstance(expected, type):
            wrong += [] if type(value) is expected else [here]
        else:
            wrong += [] if value == expected else [here]
    return wrong


def test_the_operators_recipe_fits_its_schema() -> None:
    """Kills: a field that the operator does not know, which Kubernetes drops without a word; a number where text belongs."""
    assert (OPERATED["apiVersion"], OPERATED["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    spec = OPERATED["spec"]
    assert unlike_schema(spec, FIELDS, "spec") == []
    assert set(spec) >= REQUIRED
    assert all(isinstance(each, str) for each in (*spec["arguments"], *spec["sparkConf"].values()))
    assert unlike_schema({"driver": {"envs": []}, "executor": {"instances": "4"}}, FIELDS, "spec") == [
        "spec.driver.envs",
        "spec.executor.instances",
    ]
    defaults = (ROOT / "conf/spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split() for line in defaults if line.strip() and not line.startswith("#"))
    assert spec["sparkConf"] == settings


def left_out(ours: Any, theirs: Any, path: str) -> list[str]:
    """List what the operator's own classes dropped, or read as something else."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [found for key, value in ours.items() for found in left_out(value, theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            found
            for at, pair in enumerate(zip(ours, theirs, strict=True))
            for found in left_out(*pair, f"{path}[{at}]")
        ]
    return [] if ours == theirs and type(ours) is type(theirs) else [path]


def test_the_operators_own_classes_take_the_recipe() -> None:
    """The operator publishes classes that are made from its schema, with Kubernetes' own types in it. Kills: a field of a pod
    that Kubernetes does not know; a wrong type deep inside."""
    models = pytest.importorskip("kubeflow_spark_api.models", reason="needs kubeflow-spark-api, of the extra dev")

    def read(content: dict[str, Any]) -> list[str]:
        found = models.SparkV1beta2SparkApplication.model_validate(content)
        return left_out(content, found.model_dump(by_alias=True, exclude_none=True), "")

    assert read(OPERATED) == []
    wrong = copy.deepcopy(OPERATED)
    wrong["spec"]["driver"]["volumeMounts"][0]["mountpath"] = "/etc"
    wrong["spec"]["executor"]["template"]["spec"]["automountToken"] = False
    assert set(read(wrong)) == {
        ".spec.driver.volumeMounts[0].mountpath",
        ".spec.executor.template.spec.automountToken",
    }


def test_the_operator_gives_the_ledger_to_the_driver_alone() -> None:
    """Kills: a recipe that gives executors what the pod templates keep from them."""
    spec = OPERATED["spec"]
    for role in ("driver", "executor"):
        (container,) = POD[role]["spec"]["containers"]
        assert spec[role]["volumeMounts"] == container["volumeMounts"]
        assert spec[role].get("env") == container.get("env")
        assert spec[role]["securityContext"] == container["securityContext"]
        assert spec[role]["podSecurityContext"] == POD[role]["spec"]["securityContext"]
        assert spec[role]["labels"] == POD[role]["metadata"]["labels"]
        assert {mount["name"] for mount in spec[role]["volumeMounts"]} <= {one["name"] for one in spec["volumes"]}
    assert spec["volumes"] == POD["driver"]["spec"]["volumes"]
    assert spec["executor"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert spec["mainApplicationFile"].removeprefix("local:///opt/dpspark/") in {
        str(path.relative_to(ROOT)) for path in (ROOT / "jobs").glob("*.py")
    }
