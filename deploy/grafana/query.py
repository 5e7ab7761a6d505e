"""A query of Grafana's PostgreSQL data source, for which the SDK has no class."""

from __future__ import annotations

from textwrap import dedent
from typing import Literal

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

DATA_SOURCE_TYPE = "grafana-postgresql-datasource"
DATA_SOURCE_UID = "minions-postgres"
Format = Literal["table", "time_series"]


def data_source() -> DataSourceRef:
    """The provisioned data source: its uid is fixed, so that dashboards find it in every Grafana."""
    return DataSourceRef(type_val=DATA_SOURCE_TYPE, uid=DATA_SOURCE_UID)


class PostgresQuery(Dataquery):
    """One statement, as the data source stores it."""

    def __init__(self, sql: str, format_: Format, ref_id: str = "A") -> None:
        self.sql = dedent(sql).strip()
        self.format = format_
        self.ref_id = ref_id

    def to_json(self) -> dict[str, object]:
        return {
            "datasource": data_source(),
            "editorMode": "code",
            "format": self.format,
            "rawQuery": True,
            "rawSql": self.sql,
            "refId": self.ref_id,
        }


class Query(Builder[Dataquery]):
    """What the SDK's panels take."""

    def __init__(self, sql: str, format_: Format) -> None:
        self._query = PostgresQuery(sql, format_)

    def build(self) -> Dataquery:
        return self._query
