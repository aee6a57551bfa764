-- The roles, none of which owns a table. They belong to the whole cluster, where another database may use them already.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['change_freeze_app', 'change_freeze_worker', 'change_freeze_identity'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of the cluster is being migrated at the same moment
            END;
        END IF;
    END LOOP;
END $$;
GRANT change_freeze_app, change_freeze_worker, change_freeze_identity TO CURRENT_USER;
GRANT USAGE ON SCHEMA public TO change_freeze_app, change_freeze_worker, change_freeze_identity;
