"""How far threads, connections and the event loop of an API process are in use: sampled, so requests pay nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Engine

from app.database import READS_POOL, Reads
from app.edge.worker_threads import Workers
from app.metrics import families
from app.metrics.database_pools import sample_engine, sample_pool

SAMPLE_INTERVAL = 1.0
"""Seconds between two samples."""
_THREADS = families.REQUEST_THREADS.gauge()
_BUSY = families.REQUEST_THREADS_BUSY.gauge()
_LAG = families.EVENT_LOOP_LAG.gauge("livemax")


@dataclass(frozen=True, slots=True)
class Saturation:
    """What is sampled in one process."""

    threads: Sequence[Workers]
    engines: Sequence[Engine]
    reads: Reads

    @asynccontextmanager
    async def sampled(self) -> AsyncIterator[None]:
        """Sample while the block runs."""
        task = asyncio.create_task(self._sample_forever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _sample_forever(self) -> None:
        loop = asyncio.get_running_loop()
        lag = 0.0
        while True:
            self.sample(lag)
            due_at = loop.time() + SAMPLE_INTERVAL
            await asyncio.sleep(SAMPLE_INTERVAL)
            lag = max(0.0, loop.time() - due_at)

    def sample(self, lag: float) -> None:
        """Show what is in use now; `lag` is how late the event loop is."""
        for workers in self.threads:
            _THREADS.labels(workers.name).set(workers.slots.size)
            _BUSY.labels(workers.name).set(workers.slots.in_use)
        for engine in self.engines:
            sample_engine(engine)
        sample_pool(READS_POOL, self.reads.slots.size, self.reads.slots.in_use)
        _LAG.set(lag)
