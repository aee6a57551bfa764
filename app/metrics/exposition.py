"""The metrics of a process, or of all worker processes of one gunicorn, in the text format of Prometheus."""

import os
import platform
from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from app.metrics.families import BUILD_INFO
from rules.version import VERSION

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the directory that the processes of one gunicorn share."""


class _BuildInfo(Collector):
    """The release that runs."""

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(BUILD_INFO.full_name, BUILD_INFO.meaning, labels=BUILD_INFO.labels)
        family.add_metric([VERSION, platform.python_version()], 1)
        yield family


class _StartTime(Collector):
    """When gunicorn was started: what one of its processes uses says little."""

    def __init__(self) -> None:
        self._process = ProcessCollector(pid=os.getppid, registry=None)

    def collect(self) -> Iterable[Metric]:
        return [family for family in self._process.collect() if family.name == "process_start_time_seconds"]


REGISTRY.register(_BuildInfo())


def render() -> bytes:
    """Return the metrics."""
    if DIRECTORY not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_BuildInfo())
    registry.register(_StartTime())
    return generate_latest(registry)
