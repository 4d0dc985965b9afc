#!/usr/bin/env bash
# duckdb 2.0.1: one median query, two answers: NaN of a pandas frame is NULL, NaN of an Arrow table is a number
#
# Expected: one SQL text over the same five numbers has one answer, whatever library holds them.
# Observed: with a NaN for a failed round, median, max and count are 2.5, 5.0, 4 over a pandas DataFrame and 3.0, nan, 5
#   over the Arrow table and the polars frame of the same array: pandas' NaN is read as NULL and left out, the others'
#   stands above all numbers. No warning. Parquet keeps the difference: written by pandas 2.5, by polars 3.0.
# Why it matters: a history often marks a failed measurement by NaN. A query over it moves the median up by half a rank
#   for each failure, or not, by who wrote the file. Two dashboards on one history then disagree. Store NULL for what
#   was not measured, or write `FILTER (NOT isnan(t))` into every aggregate.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 numpy==2.4.6

cat > "$work/median.py" <<'PYTHON'
import sys

import duckdb
import numpy
import pandas
import polars
import pyarrow

times = numpy.array([1.0, 2.0, 3.0, numpy.nan, 5.0])
pandas_frame = pandas.DataFrame({"t": times})
arrow_table = pyarrow.table({"t": times})
polars_frame = polars.DataFrame({"t": times})
pandas_file, polars_file = f"{sys.argv[1]}/pandas.parquet", f"{sys.argv[1]}/polars.parquet"
pandas_frame.to_parquet(pandas_file)
polars_frame.write_parquet(polars_file)

print("duckdb", duckdb.__version__)
medians = {}
for source in "pandas_frame", "arrow_table", "polars_frame", f"'{pandas_file}'", f"'{polars_file}'":
    name = source.strip("'").rpartition("/")[2]
    (row,) = duckdb.sql(f"SELECT median(t), max(t), count(t) FROM {source}").fetchall()
    print(f"{name}: median {row[0]}, max {row[1]}, count {row[2]}")
    medians[name] = row[0]
assert medians == {
    "pandas_frame": 2.5, "arrow_table": 3.0, "polars_frame": 3.0, "pandas.parquet": 2.5, "polars.parquet": 3.0,
}, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/median.py" "$work"
