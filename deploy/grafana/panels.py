"""The few kinds of panels that the dashboards are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from grafana_foundation_sdk.builders import bargauge, common, piechart, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.piechart import PieChartLegendValues

from deploy.grafana.query import Query, data_source

CHOSEN = "team = ANY (ARRAY[${team:sqlstring}]::text[]) AND project = ANY (ARRAY[${project:sqlstring}]::text[])"
"""What the two variables choose. An empty list of them stays valid SQL, which IN () would not."""

SHORT = "short"
SECONDS = "s"
BYTES = "decbytes"
# Both are shortened to K and M; a unit that Grafana does not know would only be put behind the number.
ROWS_PER_SECOND = "rowsps"
TOKENS_PER_SECOND = "count:tokens/s"
SHARE = "percentunit"

Colour = Literal["text", "blue", "green", "orange", "red"]
Levels = tuple[tuple[float, Colour], ...]
"""The colour of a number from each of these values on."""

SOME_IS_BAD: Levels = ((1, "orange"),)
NONE_IS_BAD: Levels = ((0, "red"), (1, "green"))


class Panel(Protocol):
    """A panel that is not placed yet."""

    def id(self, id_val: int) -> Builder[dashboard.Panel]: ...


def numbers(
    title: str,
    sql: str,
    *,
    width: int,
    said: str = "",
    unit: str = SHORT,
    nothing: str = "0",
    units: Mapping[str, str] | None = None,
    levels: Mapping[str, Levels] | None = None,
) -> Panel:
    """Large numbers: one for each column of the only row, which a query always returns. units, levels: of columns."""
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/").values(False)
    made = stat.Panel().title(title).description(said).datasource(data_source()).with_target(Query(sql, "table"))
    made = made.reduce_options(reduced).graph_mode(BigValueGraphMode.NONE).color_mode(BigValueColorMode.VALUE)
    made = made.thresholds(_thresholds("text"))
    for column, its_unit in (units or {}).items():
        made = made.override_by_name(column, [dashboard.DynamicConfigValue(id_val="unit", value=its_unit)])
    for column, its in (levels or {}).items():
        value = _thresholds("text", its).build()
        made = made.override_by_name(column, [dashboard.DynamicConfigValue(id_val="thresholds", value=value)])
    return made.unit(unit).no_value(nothing).span(width).height(4)


def bars(
    title: str,
    sql: str,
    *,
    width: int,
    said: str = "",
    unit: str = SHORT,
    nothing: str = "none",
    levels: Levels = (),
) -> Panel:
    """A bar for each row: a text that names it, and a number."""
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"]).values(True).limit(50)
    made = bargauge.Panel().title(title).description(said).datasource(data_source()).with_target(Query(sql, "table"))
    made = made.reduce_options(reduced).orientation(VizOrientation.HORIZONTAL).min(0)
    made = made.thresholds(_thresholds("blue", levels))
    return made.unit(unit).no_value(nothing).span(width).height(8)


def shares(title: str, sql: str, *, width: int, said: str = "") -> Panel:
    """A slice for each row: a text that names it, and a number."""
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"]).values(True).limit(50)
    legend = piechart.PieChartLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    legend = legend.show_legend(True).values([PieChartLegendValues.VALUE, PieChartLegendValues.PERCENT])
    made = piechart.Panel().title(title).description(said).datasource(data_source()).with_target(Query(sql, "table"))
    return made.reduce_options(reduced).legend(legend).span(width).height(8)


def lines(
    title: str,
    sql: str,
    *,
    width: int,
    said: str = "",
    unit: str = SHORT,
    stacked: bool = False,
    interval: str = "1m",
) -> Panel:
    """A line for each value of `metric`, or for each column. interval: the shortest step that means anything."""
    made = timeseries.Panel().title(title).description(said).datasource(data_source())
    made = made.with_target(Query(sql, "time_series")).interval(interval).unit(unit).min(0)
    made = made.draw_style(GraphDrawStyle.LINE).fill_opacity(20 if stacked else 8).show_points(VisibilityMode.AUTO)
    made = made.stacking(common.StackingConfig().mode(StackingMode.NORMAL if stacked else StackingMode.NONE))
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return made.legend(legend.show_legend(True).calcs([])).span(width).height(8)


def rows(
    title: str, sql: str, *, width: int, height: int = 9, said: str = "", units: dict[str, str] | None = None
) -> Panel:
    """A table. units: of columns that are not plain numbers."""
    made = table.Panel().title(title).description(said).datasource(data_source()).with_target(Query(sql, "table"))
    for column, unit in (units or {}).items():
        made = made.override_by_name(column, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    return made.span(width).height(height)


def _thresholds(base: Colour, levels: Levels = ()) -> dashboard_builders.ThresholdsConfig:
    """Said for every panel: without, Grafana colours whatever is above 80 red."""
    steps = [dashboard.Threshold(value=None, color=base)]
    steps += [dashboard.Threshold(value=least, color=colour) for least, colour in levels]
    return dashboard_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
