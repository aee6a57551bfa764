"""Serving the metrics of a worker; `app/gunicorn.py` does it for the API."""

from collections.abc import Callable

from prometheus_client import REGISTRY

from app.config import Config
from app.metrics import exposition
from app.metrics.database_pools import sample_engine
from app.metrics.facts import make_facts
from app.metrics.server import listen, serve
from jobs.context import Context


def serve_metrics(
    config: Config, context: Context, count_wakeups: Callable[[], int], is_ready: Callable[[], bool]
) -> None:
    """Serve metrics of this process, facts of the whole service, and probes, if METRICS_BIND is set.

    Raise ConfigurationError if that is not possible.
    """
    if config.metrics_bind is None:
        return
    REGISTRY.register(make_facts(config.database_url, context.uow_factory, count_wakeups))

    def render() -> bytes:
        sample_engine(context.uow_factory.engine)
        return exposition.render()

    serve(listen(config.metrics_bind), render, is_ready)
