"""What databases and Perfetto read from a trace of packing: the number of shards, their bytes and those of their inputs."""

import contextlib
import json
import sys

import duckdb

trace = sys.argv[1]
events = f"read_json('{trace}', format='array', columns={{'name': 'VARCHAR', 'ph': 'VARCHAR', 'tid': 'BIGINT', 'ts': 'DOUBLE', 'dur': 'DOUBLE', 'args': 'JSON'}})"
shards, size, input_bytes = duckdb.sql(
    f"SELECT count(*), sum((args->>'bytes')::BIGINT), sum((args->>'input_bytes')::BIGINT) FROM {events} WHERE name = 'shard'"
).fetchall()[0]
# The time of each stage on all threads, and no more of a stage in a shard than the shard has.
stages = dict(duckdb.sql(f"SELECT name, sum(dur) FROM {events} WHERE ph = 'X' GROUP BY name").fetchall())
assert stages["write"] + stages["finish"] + stages["publish"] <= stages["shard"], stages
found = {"duckdb": {"shards": shards, "bytes": int(size), "input_bytes": int(input_bytes)}, "perfetto": None}
try:
    from perfetto.trace_processor import TraceProcessor

    # It tells of its download on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        processor = TraceProcessor(trace=trace)
except Exception as error:  # it downloads a program, which not every machine can
    print(f"perfetto: {error}", file=sys.stderr)
else:
    query = """SELECT count(*) AS shards, sum(extract_arg(arg_set_id, 'args.bytes')) AS bytes,
               sum(extract_arg(arg_set_id, 'args.input_bytes')) AS input_bytes FROM slice WHERE name = 'shard'"""
    row = next(iter(processor.query(query)))
    found["perfetto"] = {"shards": row.shards, "bytes": int(row.bytes), "input_bytes": int(row.input_bytes)}
print(json.dumps(found))
