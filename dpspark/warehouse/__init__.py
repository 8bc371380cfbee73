"""The tables of a warehouse that published releases are loaded into, for SQL, dbt and BI. Post-processing: no cost."""
