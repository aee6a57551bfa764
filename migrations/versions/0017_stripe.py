"""Customers, subscriptions and prices of Stripe, and the requests to read them again.

A webhook names a customer, and knows no organisation: it requests the work through a function.

Revision ID: 0017
Revises: 0016
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE stripe_customers (
    id TEXT NOT NULL,
    organization_id TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    synced_at TIMESTAMP WITH TIME ZONE,
    checkout_id TEXT,
    visited_at TIMESTAMP WITH TIME ZONE,
    invoices JSONB DEFAULT '[]' NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_stripe_customers PRIMARY KEY (id),
    CONSTRAINT fk_stripe_customers_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX ix_stripe_customers_organization_id ON stripe_customers (organization_id);
CREATE INDEX ix_stripe_customers_due ON stripe_customers (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE stripe_subscriptions (
    id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    state TEXT NOT NULL,
    plan TEXT,
    interval TEXT NOT NULL,
    currency TEXT NOT NULL,
    unit_amount INTEGER,
    period_start TIMESTAMP WITH TIME ZONE NOT NULL,
    period_end TIMESTAMP WITH TIME ZONE NOT NULL,
    cancel_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    past_due_since TIMESTAMP WITH TIME ZONE,
    unclear_since TIMESTAMP WITH TIME ZONE,
    action_url TEXT,
    announced_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_stripe_subscriptions PRIMARY KEY (id),
    CONSTRAINT fk_stripe_subscriptions_organization_id FOREIGN KEY (organization_id) REFERENCES organizations (id)
);
CREATE INDEX ix_stripe_subscriptions_organization_id ON stripe_subscriptions (organization_id);
CREATE TABLE stripe_prices (
    id TEXT NOT NULL,
    currency TEXT NOT NULL,
    plan TEXT NOT NULL,
    interval TEXT NOT NULL,
    unit_amount INTEGER NOT NULL,
    tax_behavior TEXT NOT NULL,
    on_sale BOOLEAN NOT NULL,
    is_default BOOLEAN NOT NULL,
    CONSTRAINT pk_stripe_prices PRIMARY KEY (id, currency)
);
CREATE TABLE stripe_catalogues (
    name TEXT NOT NULL,
    synced_at TIMESTAMP WITH TIME ZONE,
    due_at TIMESTAMP WITH TIME ZONE,
    lease_token TEXT,
    lease_holder INTEGER,
    lease_until TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    last_error_code TEXT,
    last_error_message TEXT,
    CONSTRAINT pk_stripe_catalogues PRIMARY KEY (name)
);
INSERT INTO stripe_catalogues (name, due_at) VALUES ('prices', now());
"""

# Checkout stores the customer of an organisation; only jobs read Stripe. The deletion of an organisation finds it.
RIGHTS = """
ALTER TABLE stripe_customers ENABLE ROW LEVEL SECURITY;
ALTER TABLE stripe_customers FORCE ROW LEVEL SECURITY;
ALTER TABLE stripe_subscriptions ENABLE ROW LEVEL SECURITY;
ALTER TABLE stripe_subscriptions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_organization ON stripe_customers TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true));
CREATE POLICY own_organization ON stripe_subscriptions TO change_freeze_app
    USING (organization_id = current_setting('app.organization_id', true));
CREATE POLICY every_organization ON stripe_customers TO change_freeze_worker, change_freeze_identity
    USING (true) WITH CHECK (true);
CREATE POLICY every_organization ON stripe_subscriptions TO change_freeze_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON stripe_customers TO change_freeze_app;
GRANT SELECT ON stripe_subscriptions, stripe_prices, stripe_catalogues TO change_freeze_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON stripe_customers, stripe_subscriptions, stripe_prices, stripe_catalogues
    TO change_freeze_worker;
GRANT SELECT ON stripe_customers TO change_freeze_identity;
"""

# What is requested during a lease stays due after it.
FUNCTIONS = """
CREATE FUNCTION request_stripe_customer(customer text, at timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE stripe_customers c
    SET attempts = 0,
        due_at = CASE WHEN c.lease_until > at THEN greatest(at, c.due_at + interval '1 microsecond')
                 ELSE least(at, c.due_at) END
    WHERE c.id = customer RETURNING true
$$;
CREATE FUNCTION request_stripe_prices(at timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO stripe_catalogues AS c (name, due_at) VALUES ('prices', at)
    ON CONFLICT (name) DO UPDATE
    SET attempts = 0,
        due_at = CASE WHEN c.lease_until > at THEN greatest(at, c.due_at + interval '1 microsecond')
                 ELSE least(at, c.due_at) END
    RETURNING true
$$;
ALTER FUNCTION request_stripe_customer(text, timestamptz) OWNER TO change_freeze_worker;
ALTER FUNCTION request_stripe_prices(timestamptz) OWNER TO change_freeze_worker;
REVOKE ALL ON FUNCTION request_stripe_customer(text, timestamptz), request_stripe_prices(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION request_stripe_customer(text, timestamptz), request_stripe_prices(timestamptz)
    TO change_freeze_app;
GRANT EXECUTE ON FUNCTION request_stripe_customer(text, timestamptz) TO change_freeze_identity;
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(RIGHTS)
    op.execute("GRANT CREATE ON SCHEMA public TO change_freeze_worker")  # only while it is given its functions
    op.execute(FUNCTIONS)
    op.execute("REVOKE CREATE ON SCHEMA public FROM change_freeze_worker")


def downgrade() -> None:
    op.execute("DROP FUNCTION request_stripe_customer(text, timestamptz), request_stripe_prices(timestamptz)")
    op.execute("DROP TABLE stripe_customers, stripe_subscriptions, stripe_prices, stripe_catalogues")
