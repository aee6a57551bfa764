-- Once for each cluster, as a superuser connected to the database of the service:
--   psql --dbname change_freeze --file deploy/postgres/roles.sql
-- Then give the logins passwords (\password), or a line in pg_hba.conf.

-- The rights of the processes. The first migration would create these roles too, if the owner may create roles.
CREATE ROLE change_freeze_app NOLOGIN;
CREATE ROLE change_freeze_identity NOLOGIN;
CREATE ROLE change_freeze_worker NOLOGIN;

-- DATABASE_OWNER_URL: owns the schema, and is used by `python -m app migrate` alone.
CREATE ROLE change_freeze_owner LOGIN;
GRANT change_freeze_app, change_freeze_identity, change_freeze_worker TO change_freeze_owner WITH ADMIN OPTION;

-- DATABASE_URL: owns nothing. Each transaction takes the role that it needs.
CREATE ROLE change_freeze_service LOGIN NOINHERIT;
GRANT change_freeze_app, change_freeze_identity, change_freeze_worker TO change_freeze_service;

DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO change_freeze_owner', current_database());
    EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO change_freeze_service', current_database());
END $$;

-- For backups, where the provider lets you give BYPASSRLS: reads also what row-level security hides from the owner.
CREATE ROLE change_freeze_backup LOGIN BYPASSRLS;
GRANT pg_read_all_data TO change_freeze_backup;
DO $$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO change_freeze_backup', current_database());
END $$;
