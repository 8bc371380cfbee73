"""A release a month, for Airflow 3 with its Spark provider. docs/schedule.md says why each line is as it is."""

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

HOME = "/opt/dpspark"  # jobs/, conf/ and the zip of `make dist`
# From the run's interval, never from the clock, the run id or the number of the try: a retry must ask for the same release.
MONTH = "{{ params.month or data_interval_start.strftime('%Y-%m') }}"
VERSION = MONTH + "{{ params.correction }}"

with DAG(
    dag_id="dpspark_monthly",
    # On the second of each month, for the month that is over. A plain "@monthly" has no interval in Airflow 3.
    schedule=CronDataIntervalTimetable("0 4 2 * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,  # or switching it on would release, and charge, every month since the start
    max_active_runs=1,  # months are charged in their order
    params={
        "month": Param("", type="string", pattern=r"^(\d{4}-\d{2})?$"),
        "correction": Param("", type="string", pattern=r"^(-r\d+)?$"),  # "-r2": new data for a released month
    },
    default_args={
        "retries": 6,
        "retry_delay": timedelta(minutes=5),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(hours=2),
    },
) as dag:
    release = SparkSubmitOperator(
        task_id="release",
        conn_id="spark_default",
        deploy_mode="client",  # so that the exit code is dpspark's, and one machine has ledger and output
        application=f"{HOME}/jobs/release_gram.py",
        py_files=f"{HOME}/dpspark.zip",
        properties_file=f"{HOME}/conf/spark-defaults.conf",
        name=f"dpspark-{VERSION}",
        application_args=[
            f"{HOME}/conf/monthly.yaml",
            "--set",
            f"release.version={VERSION}",
            "--set",
            f"source.parquet=/data/people/month={MONTH}",
        ],
    )
    verify = BashOperator(task_id="verify", bash_command=f"dpspark verify /data/releases/income/{VERSION}")
    release >> verify
