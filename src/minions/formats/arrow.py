"""Apache Arrow as `Any`, because it ships no type information: the one place that imports it."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

arrow: Any = pyarrow
compute: Any = pyarrow.compute
arrow_csv: Any = pyarrow.csv
arrow_json: Any = pyarrow.json
arrow_parquet: Any = pyarrow.parquet

Table: TypeAlias = Any
Array: TypeAlias = Any
Schema: TypeAlias = Any
DataType: TypeAlias = Any
