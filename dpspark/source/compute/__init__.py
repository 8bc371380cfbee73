"""Row-local SQL expressions as programs of pyarrow kernels, with Spark's meaning to the last bit, or not at all.

The driver compiles (`compile.py` and what it imports); executors run (`program.py`, which needs numpy and pyarrow alone).
"""
