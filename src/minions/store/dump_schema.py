"""Dumping the schema of a migrated database as `schema.sql`, the same text from every version of PostgreSQL.

`make schema` writes it anew. It reads the catalog instead
of running pg_dump, whose output changes between versions.
"""

from __future__ import annotations

from minions.store.database import Connection, connect

_TABLES = """
SELECT class.oid::int AS oid, class.relname AS name, class.reloptions AS options, obj_description(class.oid) AS said
FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace
WHERE class.relkind = 'r' AND space.nspname = current_schema() AND class.relname LIKE 'minion\\_%'
ORDER BY class.relname
"""
_COLUMNS = """
SELECT attribute.attname AS name, format_type(attribute.atttypid, attribute.atttypmod) AS type,
    attribute.attnotnull AS required, attribute.attidentity <> '' AS identity,
    pg_get_expr(preset.adbin, preset.adrelid) AS preset, col_description(attribute.attrelid, attribute.attnum) AS said
FROM pg_attribute AS attribute
LEFT JOIN pg_attrdef AS preset ON preset.adrelid = attribute.attrelid AND preset.adnum = attribute.attnum
WHERE attribute.attrelid = $1 AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
"""
# PostgreSQL 18 also lists NOT NULL here.
_CONSTRAINTS = """
SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE conrelid = $1 AND contype IN ('c', 'f', 'p', 'u')
ORDER BY array_position('{p,u,f,c}'::text[], contype::text), conname
"""
_INDEXES = """
SELECT pg_get_indexdef(indexrelid) AS definition FROM pg_index
WHERE indrelid = $1 AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND conrelid = $1)
ORDER BY indexrelid::regclass::text
"""


async def dump_schema(url: str) -> str:
    """All tables of Minions with their columns, constraints, indexes, options and comments."""
    connection = await connect(url)
    try:
        tables = await connection.fetch(_TABLES)
        dumped = [await _table(connection, row["oid"], row["name"], row["options"], row["said"]) for row in tables]
    finally:
        await connection.close()
    head = "-- Dumped from a migrated database by minions.store.dump_schema; the migrations are what is applied.\n"
    return "\n".join([head, *dumped])


async def _table(connection: Connection, oid: int, name: str, options: list[str] | None, said: str | None) -> str:
    lines: list[str] = []
    comments = [f"COMMENT ON TABLE {name} IS {_quoted(said)};"] if said else []
    for column in await connection.fetch(_COLUMNS, oid):
        line = f"    {column['name']} {column['type']}"
        line += " GENERATED ALWAYS AS IDENTITY" if column["identity"] else ""
        line += " NOT NULL" if column["required"] else ""
        line += f" DEFAULT {column['preset']}" if column["preset"] is not None else ""
        lines.append(line)
        if column["said"]:
            comments.append(f"COMMENT ON COLUMN {name}.{column['name']} IS {_quoted(column['said'])};")
    for constraint in await connection.fetch(_CONSTRAINTS, oid):
        lines.append(f"    CONSTRAINT {constraint['name']} {constraint['definition']}")
    ending = f") WITH ({', '.join(sorted(options))});" if options else ");"
    indexes = [f"{row['definition']};" for row in await connection.fetch(_INDEXES, oid)]
    return "\n".join([f"CREATE TABLE {name} (", ",\n".join(lines), ending, *comments, *indexes, ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
