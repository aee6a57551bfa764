-- Row-level security and rights (I8). change_freeze_app serves requests and sees the rows of the organisation that
-- app.organization_id names. change_freeze_worker runs jobs and sees all rows. change_freeze_identity is for what
-- concerns people and not one organisation: it sees everybody's memberships, and no freeze.

-- Row-level security is forced: it binds the owner of the tables too.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'organizations', 'withdrawals', 'users', 'memberships', 'invitations', 'one_time_tokens', 'mails',
        'device_authorizations', 'github_links', 'api_keys', 'api_key_secrets', 'oauth_grants', 'oauth_codes',
        'oauth_refresh_tokens', 'idempotency_keys', 'installations', 'repository_syncs', 'repositories',
        'remote_branch_lists', 'watched_branches', 'branch_tips', 'pull_requests', 'head_checks', 'freezes',
        'freeze_targets', 'schedules', 'occurrences', 'cancelled_windows', 'exceptions', 'branch_enforcement',
        'written_rulesets', 'frozen_branch_rulesets', 'enforcement_setups', 'frozen_branch_pushes', 'attention_items',
        'audit_entries', 'audit_seals', 'audit_removals', 'audit_unsealed', 'plan_grants', 'stripe_customers',
        'stripe_subscriptions', 'notification_destinations', 'reminders', 'mail_choices', 'slack_connections',
        'slack_links', 'slack_subscriptions', 'slack_messages', 'webhook_endpoints', 'webhook_messages',
        'calendar_feeds'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;

-- Tables whose rows belong to one organisation each.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'withdrawals', 'memberships', 'invitations', 'one_time_tokens', 'mails', 'github_links', 'api_keys',
        'api_key_secrets', 'idempotency_keys', 'installations', 'repository_syncs', 'repositories',
        'remote_branch_lists', 'watched_branches', 'branch_tips', 'pull_requests', 'head_checks', 'freezes',
        'freeze_targets', 'schedules', 'occurrences', 'cancelled_windows', 'exceptions', 'branch_enforcement',
        'written_rulesets', 'frozen_branch_rulesets', 'enforcement_setups', 'frozen_branch_pushes', 'attention_items',
        'audit_entries', 'audit_seals', 'audit_removals', 'audit_unsealed', 'notification_destinations', 'reminders',
        'mail_choices', 'slack_connections', 'slack_links', 'slack_subscriptions', 'slack_messages',
        'webhook_endpoints', 'webhook_messages', 'calendar_feeds'
    ] LOOP
        EXECUTE format($policy$
            CREATE POLICY own_organization ON %I TO change_freeze_app
                USING (organization_id = current_setting('app.organization_id', true))
                WITH CHECK (organization_id = current_setting('app.organization_id', true))
        $policy$, name);
        EXECUTE format(
            'CREATE POLICY every_organization ON %I TO change_freeze_worker USING (true) WITH CHECK (true)', name
        );
    END LOOP;
END $$;
CREATE POLICY own_organization ON organizations TO change_freeze_app
    USING (id = current_setting('app.organization_id', true))
    WITH CHECK (id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON organizations TO change_freeze_worker USING (true) WITH CHECK (true);

-- What the role for people sees in every organisation.
CREATE POLICY every_person ON organizations TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON memberships TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON invitations TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON one_time_tokens TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON mails TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON idempotency_keys TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON installations TO change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON audit_entries TO change_freeze_identity USING (true) WITH CHECK (true);

-- People, and what clients that they connect may do. An organisation sees its members and its grants.
CREATE POLICY own_organization ON users TO change_freeze_app
    USING (EXISTS (SELECT FROM memberships m WHERE m.user_id = users.id));
CREATE POLICY own_organization ON oauth_grants TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_person ON users TO change_freeze_worker, change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON device_authorizations TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY every_person ON oauth_grants TO change_freeze_worker, change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON oauth_codes TO change_freeze_worker, change_freeze_identity USING (true) WITH CHECK (true);
CREATE POLICY every_person ON oauth_refresh_tokens TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);

-- The role for people creates organisations, with the destination of the mails to their members.
CREATE POLICY created_organization ON notification_destinations TO change_freeze_identity
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true));

-- Requests start trials; operators grant plans as the role for people. Checkout stores the customer of an organisation,
-- whose deletion finds it; only jobs read Stripe.
CREATE POLICY own_organization ON plan_grants TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true))
    WITH CHECK (organization_id = current_setting('app.organization_id', true) AND source = 'trial');
CREATE POLICY every_organization ON plan_grants TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY own_organization ON stripe_customers TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON stripe_customers TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY own_organization ON stripe_subscriptions TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON stripe_subscriptions TO change_freeze_worker USING (true) WITH CHECK (true);

-- The audit is never changed. It is removed with the data of an organisation that was deleted, or after an export,
-- which only the owner of the schema can record.
CREATE POLICY only_deleted_or_exported ON audit_entries AS RESTRICTIVE FOR DELETE TO change_freeze_worker USING (
    EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL)
    OR EXISTS (
        SELECT FROM audit_seals s
        JOIN audit_removals r ON r.organization_id = s.organization_id AND r.sequence >= s.sequence
        WHERE s.entry_id = audit_entries.id
    )
);
CREATE POLICY only_deleted_or_exported ON audit_seals AS RESTRICTIVE FOR DELETE TO change_freeze_worker USING (
    EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL)
    OR EXISTS (
        SELECT FROM audit_removals r
        WHERE r.organization_id = audit_seals.organization_id AND r.sequence >= audit_seals.sequence
    )
);
CREATE POLICY recorded_by_the_owner ON audit_removals FOR INSERT TO PUBLIC WITH CHECK (true);
CREATE POLICY only_of_the_deleted ON audit_removals AS RESTRICTIVE FOR DELETE TO change_freeze_worker USING (
    EXISTS (SELECT FROM organizations o WHERE o.id = organization_id AND o.deleted_at IS NOT NULL)
);

-- What requests may do.
GRANT SELECT, UPDATE ON organizations, installations, slack_messages TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE ON withdrawals, invitations, one_time_tokens, api_keys, repository_syncs, repositories,
    remote_branch_lists, watched_branches, pull_requests, freezes, freeze_targets, schedules, cancelled_windows,
    exceptions, branch_enforcement, enforcement_setups, attention_items, plan_grants, webhook_endpoints
    TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON memberships, github_links, api_key_secrets, idempotency_keys, occurrences,
    written_rulesets, stripe_customers, mail_choices, slack_connections, slack_links, slack_subscriptions
    TO change_freeze_app;
GRANT INSERT ON mails, webhook_deliveries TO change_freeze_app;
GRANT SELECT ON oauth_grants, periodic_tasks, lease_holders, webhook_log, database_identity, branch_tips, head_checks,
    frozen_branch_pushes, audit_seals, audit_removals, audit_unsealed, trial_hash_keys, stripe_subscriptions,
    stripe_prices, stripe_catalogues, reminders, present_database TO change_freeze_app;
GRANT SELECT, INSERT ON frozen_branch_rulesets, audit_entries, used_trials, webhook_messages, calendar_feeds
    TO change_freeze_app;
GRANT SELECT, INSERT, DELETE ON notification_destinations TO change_freeze_app;
GRANT SELECT (id, email, name, created_at, email_verified_at) ON users TO change_freeze_app;
GRANT SELECT (kid, algorithm, public_key, created_at, retired_at) ON signing_keys TO change_freeze_app;
GRANT UPDATE (revoked_at, revoked_why) ON oauth_grants TO change_freeze_app;
GRANT SELECT (delivery_id) ON webhook_deliveries TO change_freeze_app;
GRANT UPDATE (due_at, attempts) ON webhook_log TO change_freeze_app;
GRANT UPDATE (summary_hash) ON head_checks TO change_freeze_app;
GRANT UPDATE (due_at, attempts) ON frozen_branch_rulesets TO change_freeze_app;
GRANT UPDATE (remind_before) ON notification_destinations TO change_freeze_app;
GRANT UPDATE (delivered_at, due_at, attempts, last_error_code, last_error_message) ON webhook_messages
    TO change_freeze_app;
GRANT UPDATE (revoked_at) ON calendar_feeds TO change_freeze_app;

-- What the role for people may do.
GRANT SELECT, INSERT, UPDATE ON organizations, invitations, mails TO change_freeze_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON users, memberships, sessions, signing_keys, one_time_tokens,
    throttled_attempts, device_authorizations, oauth_clients, oauth_grants, oauth_codes, oauth_refresh_tokens,
    idempotency_keys, plan_grants TO change_freeze_identity;
GRANT SELECT ON periodic_tasks, installations, stripe_customers TO change_freeze_identity;
GRANT SELECT, INSERT ON audit_entries, notification_destinations TO change_freeze_identity;

-- What jobs may do.
GRANT USAGE ON SEQUENCE evaluations TO change_freeze_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON organizations, withdrawals, users, memberships, sessions, signing_keys,
    invitations, one_time_tokens, mails, throttled_attempts, device_authorizations, github_links, api_keys,
    api_key_secrets, oauth_clients, oauth_grants, oauth_codes, oauth_refresh_tokens, idempotency_keys,
    webhook_deliveries, periodic_tasks, lease_holders, installations, repository_syncs, repositories,
    remote_branch_lists, watched_branches, branch_tips, pull_requests, head_checks, freezes, freeze_targets,
    schedules, occurrences, cancelled_windows, exceptions, branch_enforcement, written_rulesets,
    frozen_branch_rulesets, enforcement_setups, frozen_branch_pushes, attention_items, plan_grants, stripe_customers,
    stripe_subscriptions, stripe_prices, stripe_catalogues, notification_destinations, reminders, mail_choices,
    slack_connections, slack_links, slack_subscriptions, slack_messages, webhook_endpoints, webhook_messages,
    calendar_feeds TO change_freeze_worker;
GRANT SELECT, INSERT, DELETE ON github_api_usage, audit_entries, audit_seals, audit_unsealed, used_trials
    TO change_freeze_worker;
GRANT SELECT, INSERT, UPDATE ON webhook_log, trial_hash_keys TO change_freeze_worker;
GRANT SELECT, UPDATE ON database_identity TO change_freeze_worker;
GRANT SELECT, DELETE ON audit_removals TO change_freeze_worker;
GRANT SELECT ON present_database TO change_freeze_worker;

-- Processes read the revision of the schema, to say whether it is theirs.
GRANT SELECT ON alembic_version TO change_freeze_app, change_freeze_worker, change_freeze_identity;
