"""The sources of rows: Parquet files on disks and in stores, with their columns, types and stamps."""
