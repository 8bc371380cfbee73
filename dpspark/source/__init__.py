"""Where rows come from: Parquet files on disks and in stores, with their columns, types and stamps."""
