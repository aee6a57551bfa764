#!/bin/sh
# Gives the logins of roles.sql the passwords of compose.yaml; the PostgreSQL image runs it once, after roles.sql.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set owner_password="$OWNER_PASSWORD" --set service_password="$SERVICE_PASSWORD" <<'SQL'
ALTER ROLE change_freeze_owner PASSWORD :'owner_password';
ALTER ROLE change_freeze_service PASSWORD :'service_password';
SQL
