-- The rows that are there from the start: the cluster in which this runs, and the work that is due at once.
INSERT INTO database_identity (system_identifier, database_oid, table_oid, timeline, seen_at)
SELECT system_identifier, database_oid, table_oid, timeline, clock_timestamp() FROM present_database;
INSERT INTO stripe_catalogues (name, due_at) VALUES ('prices', now());
INSERT INTO webhook_log (since, read_at, due_at) VALUES (now(), now(), now());
